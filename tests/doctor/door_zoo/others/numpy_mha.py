"""numpy-transformer: encoder."""
import numpy as np

from .np_ops import layer_norm, softmax, xavier


class MultiHeadAttention:
    def __init__(self, d_model, num_heads):
        assert d_model % num_heads == 0
        self.d_model = d_model
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        self.Wq = xavier(d_model, d_model)
        self.Wk = xavier(d_model, d_model)
        self.Wv = xavier(d_model, d_model)
        self.Wo = xavier(d_model, d_model)

    def split_heads(self, x):
        batch, n, _ = x.shape
        return x.reshape(batch, n, self.num_heads, self.depth).transpose(0, 2, 1, 3)

    def merge_heads(self, x):
        batch, _, n, _ = x.shape
        return x.transpose(0, 2, 1, 3).reshape(batch, n, self.d_model)

    def __call__(self, x, mask=None):
        """x: (batch, n, d_model); mask: (n, n) or (batch, 1, n, n), 0 where hidden"""
        q = self.split_heads(x @ self.Wq)
        k = self.split_heads(x @ self.Wk)
        v = self.split_heads(x @ self.Wv)

        logits = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(self.depth)
        if mask is not None:
            logits = np.where(mask == 0, -1e9, logits)
        self.weights = softmax(logits)
        return self.merge_heads(self.weights @ v) @ self.Wo


class EncoderLayer:
    def __init__(self, d_model, num_heads, d_ff):
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.w1, self.w2 = xavier(d_model, d_ff), xavier(d_ff, d_model)
        self.gamma, self.beta = np.ones((2, d_model)), np.zeros((2, d_model))

    def __call__(self, x, mask=None):
        x = layer_norm(x + self.attn(x, mask), self.gamma[0], self.beta[0])
        h = np.maximum(x @ self.w1, 0) @ self.w2
        return layer_norm(x + h, self.gamma[1], self.beta[1])
