import numpy as np


class Module:
    def __init__(self):
        self.params, self.grads = {}, {}

    def step(self, lr):
        for name in self.params:
            self.params[name] -= lr * self.grads[name]


class Linear(Module):

    def __init__(self, n_in, n_out, seed=None):
        super().__init__()
        r = np.random.RandomState(seed)
        bound = np.sqrt(6 / (n_in + n_out))
        self.params = {"W": r.uniform(-bound, bound, (n_in, n_out)), "b": np.zeros(n_out)}

    def forward(self, x):
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dy):
        flat_x = self.x.reshape(-1, self.x.shape[-1])
        flat_dy = dy.reshape(-1, dy.shape[-1])
        self.grads = {"W": flat_x.T @ flat_dy, "b": flat_dy.sum(0)}
        return dy @ self.params["W"].T


class MultiHeadAttention(Module):
    """Self-attention with a backward pass. Input and output: (batch, time, d_model)."""

    def __init__(self, d_model, n_heads, causal=False):
        super().__init__()
        self.n_heads, self.d_k, self.causal = n_heads, d_model // n_heads, causal
        self.q_proj = Linear(d_model, d_model, 1)
        self.k_proj = Linear(d_model, d_model, 2)
        self.v_proj = Linear(d_model, d_model, 3)
        self.o_proj = Linear(d_model, d_model, 4)

    def _split(self, x):
        return x.reshape(*x.shape[:2], self.n_heads, self.d_k).transpose(0, 2, 1, 3)

    def _merge(self, x):
        x = x.transpose(0, 2, 1, 3)
        return x.reshape(*x.shape[:2], -1)

    def forward(self, x):
        self.q, self.k, self.v = (self._split(p.forward(x))
                                  for p in (self.q_proj, self.k_proj, self.v_proj))
        s = self.q @ self.k.swapaxes(-1, -2) / np.sqrt(self.d_k)
        if self.causal:
            t = x.shape[1]
            s[..., np.triu_indices(t, 1)[0], np.triu_indices(t, 1)[1]] = -np.inf
        s = np.exp(s - s.max(-1, keepdims=True))
        self.a = s / s.sum(-1, keepdims=True)
        return self.o_proj.forward(self._merge(self.a @ self.v))

    def backward(self, dy):
        dc = self._split(self.o_proj.backward(dy))
        da = dc @ self.v.swapaxes(-1, -2)
        dv = self.a.swapaxes(-1, -2) @ dc
        ds = self.a * (da - (da * self.a).sum(-1, keepdims=True)) / np.sqrt(self.d_k)
        dq, dk = ds @ self.k, ds.swapaxes(-1, -2) @ self.q
        return (self.q_proj.backward(self._merge(dq))
                + self.k_proj.backward(self._merge(dk))
                + self.v_proj.backward(self._merge(dv)))

    __call__ = forward


if __name__ == "__main__":
    mha = MultiHeadAttention(8, 2, causal=True)
    x = np.random.randn(2, 5, 8)
    g = mha.backward(np.ones_like(mha(x)))
    e = np.zeros_like(x)
    e[0, 1, 2] = 1e-5
    print(g[0, 1, 2], (mha(x + e).sum() - mha(x - e).sum()) / 2e-5)
