"""Attention from scratch, part 1: numpy only."""
import numpy as np
import matplotlib.pyplot as plt

rng = np.random.default_rng(0)


def softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def scaled_dot_product_attention(Q, K, V, mask=None):
    """
    Q: (..., n_q, d), K: (..., n_k, d), V: (..., n_k, d_v)
    mask: (..., n_q, n_k), True or 1 where attention is allowed
    """
    scores = np.matmul(Q, np.swapaxes(K, -1, -2)) / np.sqrt(Q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    weights = softmax(scores)
    return weights @ V, weights


class MultiHeadSelfAttention:
    """Each head has matrices of its own."""

    def __init__(self, d_model, n_heads):
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        std = 1 / np.sqrt(self.d_head)
        shape = (self.d_head, self.d_head)
        self.W_q = [rng.normal(0, std, shape) for _ in range(n_heads)]
        self.W_k = [rng.normal(0, std, shape) for _ in range(n_heads)]
        self.W_v = [rng.normal(0, std, shape) for _ in range(n_heads)]
        self.W_o = rng.normal(0, 1 / np.sqrt(d_model), (d_model, d_model))

    def __call__(self, x, mask=None):
        outs, self.maps = [], []
        for h in range(self.n_heads):
            part = x[..., h * self.d_head:(h + 1) * self.d_head]
            q = part @ self.W_q[h]
            k = part @ self.W_k[h]
            v = part @ self.W_v[h]
            out, w = scaled_dot_product_attention(q, k, v, mask)
            outs.append(out)
            self.maps.append(w)
        return np.concatenate(outs, axis=-1) @ self.W_o


def show(words, weights):
    plt.imshow(weights, cmap="viridis")
    plt.xticks(range(len(words)), words, rotation=90)
    plt.yticks(range(len(words)), words)
    plt.show()


if __name__ == "__main__":
    words = "the cat sat on the mat".split()
    layer = MultiHeadSelfAttention(16, 4)
    layer(rng.normal(size=(1, len(words), 16)))
    show(words, layer.maps[0][0])
