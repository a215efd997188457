import numpy as np


class SelfAttention:
    """
    Self-attention layer without any framework, with its backward pass.

    Parameters
    ----------
    d_in : size of the embeddings
    d_out : size of queries, keys and values
    """

    def __init__(self, d_in, d_out, seed=None):
        rng = np.random.default_rng(seed)
        bound = 1.0 / np.sqrt(d_in)
        self.W_q = rng.uniform(-bound, bound, (d_in, d_out))
        self.W_k = rng.uniform(-bound, bound, (d_in, d_out))
        self.W_v = rng.uniform(-bound, bound, (d_in, d_out))
        self.cache = None

    @staticmethod
    def _softmax(z):
        z = z - z.max(axis=-1, keepdims=True)
        e = np.exp(z)
        return e / e.sum(axis=-1, keepdims=True)

    def forward(self, x):
        q = x @ self.W_q
        k = x @ self.W_k
        v = x @ self.W_v
        a = self._softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
        self.cache = (x, q, k, v, a)
        return a @ v

    def backward(self, dout):
        """dout (n, d_out) -> dx (n, d_in); for one sequence"""
        x, q, k, v, a = self.cache
        dv = a.T @ dout
        da = dout @ v.T
        ds = a * (da - (da * a).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
        dq, dk = ds @ k, ds.T @ q
        self.dW_q, self.dW_k, self.dW_v = x.T @ dq, x.T @ dk, x.T @ dv
        return dq @ self.W_q.T + dk @ self.W_k.T + dv @ self.W_v.T

    def step(self, lr=1e-2):
        for name in ("W_q", "W_k", "W_v"):
            w = getattr(self, name)
            w -= lr * getattr(self, "d" + name)


if __name__ == "__main__":
    layer = SelfAttention(8, 8, seed=0)
    x, y = np.random.randn(6, 8), np.random.randn(6, 8)
    for it in range(500):
        out = layer.forward(x)
        loss = ((out - y) ** 2).mean()
        layer.backward(2 * (out - y) / out.size)
        layer.step(1.0)
        if it % 100 == 0:
            print(it, loss)
