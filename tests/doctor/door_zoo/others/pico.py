"""gpt in 60-odd lines of numpy (weights come from a checkpoint, see load.py)"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def norm(x, g, b, eps=1e-5):
    return g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) + b


def causal_mha(x, params, n_head):
    # x: [T, C]; params: W_q, W_k, W_v, W_o [C, C] and b_q, b_k, b_v, b_o [C]
    T, C = x.shape
    q, k, v = (x @ params["W_" + s] + params["b_" + s] for s in "qkv")
    q, k, v = (t.reshape(T, n_head, C // n_head).transpose(1, 0, 2) for t in (q, k, v))
    att = q @ k.transpose(0, 2, 1) / np.sqrt(C // n_head)
    att = att + (1 - np.tri(T)) * -1e10
    y = softmax(att) @ v  # [H, T, C / H]
    y = y.transpose(1, 0, 2).reshape(T, C)
    return y @ params["W_o"] + params["b_o"]


def mlp(x, p):
    return gelu(x @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]


def init_params(C, rng):
    p = {}
    for s in "qkvo":
        p["W_" + s] = 0.02 * rng.standard_normal((C, C))
        p["b_" + s] = np.zeros(C)
    p["W_1"], p["b_1"] = 0.02 * rng.standard_normal((C, 4 * C)), np.zeros(4 * C)
    p["W_2"], p["b_2"] = 0.02 * rng.standard_normal((4 * C, C)), np.zeros(C)
    p["g"], p["b"] = np.ones((2, C)), np.zeros((2, C))
    return p


def block(x, p, n_head):
    x = x + causal_mha(norm(x, p["g"][0], p["b"][0]), p, n_head)
    return x + mlp(norm(x, p["g"][1], p["b"][1]), p)


def gpt(ids, wte, wpe, blocks, n_head):
    x = wte[ids] + wpe[: len(ids)]
    for p in blocks:
        x = block(x, p, n_head)
    return x @ wte.T


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    C, vocab = 48, 65
    wte, wpe = rng.standard_normal((vocab, C)), rng.standard_normal((32, C))
    print(gpt([1, 5, 9], wte, wpe, [init_params(C, rng) for _ in range(2)], 6).shape)
