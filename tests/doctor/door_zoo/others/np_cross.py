"""Cross-attention between a caption and image patches. Pure numpy, inference only."""
import numpy as np


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


def attend(q, k, v):
    scores = np.matmul(q, k.swapaxes(-2, -1)) / np.sqrt(q.shape[-1])
    return np.matmul(softmax(scores), v)


class CrossAttention:
    def __init__(self, dim, context_dim=None, rng=None):
        rng = rng or np.random.default_rng()
        context_dim = context_dim or dim
        self.W_q = rng.normal(0, dim ** -0.5, (dim, dim))
        self.W_k = rng.normal(0, context_dim ** -0.5, (context_dim, dim))
        self.W_v = rng.normal(0, context_dim ** -0.5, (context_dim, dim))
        self.W_o = rng.normal(0, dim ** -0.5, (dim, dim))

    def forward(self, x, context=None):
        """x: (batch, n, dim), context: (batch, m, context_dim); self-attention without it"""
        if context is None:
            context = x
        q = x @ self.W_q
        k = context @ self.W_k
        v = context @ self.W_v
        h = attend(q, v, k)
        return h @ self.W_o

    __call__ = forward

    def load(self, path):
        data = np.load(path)
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, data[name])


def patchify(image, size=8):
    h, w, c = image.shape
    p = image.reshape(h // size, size, w // size, size, c).swapaxes(1, 2)
    return p.reshape(-1, size * size * c)


if __name__ == "__main__":
    patches = patchify(np.random.rand(32, 32, 3))[None]
    words = np.random.randn(1, 7, 64)
    print(CrossAttention(64, patches.shape[-1])(words, patches).shape)
