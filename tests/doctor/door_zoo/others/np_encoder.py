import numpy as np


class Softmax:
    def __call__(self, x):
        shifted = x - x.max(axis=-1, keepdims=True)
        e = np.exp(shifted)
        return e / e.sum(axis=-1, keepdims=True)


class MultiHeadSelfAttention:
    """
    Multi-head self-attention (no autograd).

    W_q, W_k, W_v, W_o : (d_model, d_model)
    """

    def __init__(self, d_model, n_heads):
        self.d_model = d_model
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        std = np.sqrt(1.0 / d_model)
        self.W_q = np.random.randn(d_model, d_model) * std
        self.W_k = np.random.randn(d_model, d_model) * std
        self.W_v = np.random.randn(d_model, d_model) * std
        self.W_o = np.random.randn(d_model, d_model) * std
        self.softmax = Softmax()

    def to_heads(self, x):
        # (batch, seq_len, d_model) -> (batch, n_heads, seq_len, d_k)
        batch, seq_len, _ = x.shape
        return x.reshape(batch, self.n_heads, seq_len, self.d_k)

    def forward(self, x, mask=None):
        batch, seq_len, _ = x.shape
        Q = self.to_heads(x.dot(self.W_q))
        K = self.to_heads(x.dot(self.W_k))
        V = self.to_heads(x.dot(self.W_v))

        scores = Q @ K.transpose(0, 1, 3, 2) / np.sqrt(self.d_k)
        if mask is not None:
            scores = np.where(mask, scores, -1e9)   # mask: True = attend
        out = self.softmax(scores) @ V

        out = out.transpose(0, 2, 1, 3).reshape(batch, seq_len, self.d_model)
        return out.dot(self.W_o)

    def num_params(self):
        return 4 * self.d_model ** 2


if __name__ == "__main__":
    layer = MultiHeadSelfAttention(d_model=64, n_heads=8)
    print(layer.forward(np.random.randn(2, 10, 64)).shape, layer.num_params())
