import numpy as np
from numpy.random import default_rng


def softmax(a, axis=-1):
    a = a - a.max(axis=axis, keepdims=True)
    np.exp(a, out=a)
    a /= a.sum(axis=axis, keepdims=True)
    return a


def lower_triangle(n):
    """1 where token i may see token j (j <= i), else 0."""
    return np.tril(np.ones((n, n)))


def attention(q, k, v, mask=None):
    """
    q, k, v : (batch, tokens, features)
    mask : 1 keeps a key, 0 removes it
    """
    scores = np.einsum("bid,bjd->bij", q, k)
    scores /= q.shape[-1] ** 0.5
    weights = softmax(scores)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bij,bjd->bid", weights, v)


def positional_encoding(n, d):
    pos = np.arange(n)[:, None]
    i = np.arange(d)[None, :]
    angle = pos / 10000 ** (2 * (i // 2) / d)
    return np.where(i % 2 == 0, np.sin(angle), np.cos(angle))


def generate(x, steps, W_out):
    """greedy roll-out on continuous tokens, one at a time"""
    for _ in range(steps):
        n, d = x.shape[1:]
        h = x + positional_encoding(n, d)
        y = attention(h, h, h, lower_triangle(n))
        x = np.concatenate([x, y[:, -1:] @ W_out], axis=1)
    return x


if __name__ == "__main__":
    rng = default_rng(3)
    print(generate(rng.normal(size=(2, 4, 8)), 5, rng.normal(size=(8, 8)) / 3).shape)
