"""Transformer layers in plain NumPy, each with forward and backward."""
import pickle

import numpy as np


class Parameter:
    def __init__(self, value):
        self.value = value.astype(np.float64)
        self.grad = np.zeros_like(self.value)


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class Dense:
    def __init__(self, n_in, n_out, seed=0):
        rng = np.random.default_rng(seed)
        self.W = rng.normal(0, np.sqrt(2 / n_in), size=(n_in, n_out))
        self.b = np.zeros(n_out)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b


class MultiHeadAttention:
    def __init__(self, d_model, num_heads, seed=42):
        assert d_model % num_heads == 0
        rng = np.random.default_rng(seed)
        s = 1.0 / np.sqrt(d_model)
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.Wq = rng.uniform(-s, s, (d_model, d_model))
        self.Wk = rng.uniform(-s, s, (d_model, d_model))
        self.Wv = rng.uniform(-s, s, (d_model, d_model))
        self.Wo = rng.uniform(-s, s, (d_model, d_model))
        self.bo = np.zeros(d_model)
        self.cache = {}

    def _heads(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.num_heads, self.head_dim).swapaxes(1, 2)

    def forward(self, x, mask=None):
        b, t, _ = x.shape
        q, k, v = self._heads(x @ self.Wq), self._heads(x @ self.Wk), self._heads(x @ self.Wv)
        scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(self.head_dim)
        if mask is not None:
            scores = np.where(mask, scores, -1e30)
        w = softmax(scores)
        ctx = np.einsum("bhij,bhjd->bhid", w, v)
        merged = ctx.swapaxes(1, 2).reshape(b, t, self.d_model)
        self.cache = dict(x=x, q=q, k=k, v=v, w=w, merged=merged)
        return merged @ self.Wo + self.bo

    def backward(self, grad):
        c = self.cache
        self.dWo = np.einsum("btd,bte->de", c["merged"], grad)
        self.dbo = grad.sum(axis=(0, 1))
        dmerged = grad @ self.Wo.T
        dctx = self._heads(dmerged)
        dw = np.einsum("bhid,bhjd->bhij", dctx, c["v"])
        dv = np.einsum("bhij,bhid->bhjd", c["w"], dctx)
        ds = c["w"] * (dw - (dw * c["w"]).sum(-1, keepdims=True)) / np.sqrt(self.head_dim)
        dq, dk = ds @ c["k"], ds.swapaxes(-1, -2) @ c["q"]
        dx = 0
        for name, g, W in (("dWq", dq, self.Wq), ("dWk", dk, self.Wk), ("dWv", dv, self.Wv)):
            flat = g.swapaxes(1, 2).reshape(c["x"].shape[0], -1, self.d_model)
            setattr(self, name, np.einsum("btd,bte->de", c["x"], flat))
            dx = dx + flat @ W.T
        return dx


class Adam:
    def __init__(self, lr=1e-3, b1=0.9, b2=0.999):
        self.lr, self.b1, self.b2, self.t = lr, b1, b2, 0
        self.m, self.v = {}, {}

    def step(self, key, w, g):
        self.t += 1
        m = self.m[key] = self.b1 * self.m.get(key, 0) + (1 - self.b1) * g
        v = self.v[key] = self.b2 * self.v.get(key, 0) + (1 - self.b2) * g * g
        return w - self.lr * m / (np.sqrt(v) + 1e-8)


if __name__ == "__main__":
    layer = MultiHeadAttention(64, 4)
    opt = Adam()
    with open("data.pkl", "rb") as f:
        x, y = pickle.load(f)
    for step in range(1000):
        out = layer.forward(x)
        layer.backward(2 * (out - y) / len(x))
        layer.Wo = opt.step("Wo", layer.Wo, layer.dWo)
