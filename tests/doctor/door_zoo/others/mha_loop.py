"""Multi-head attention the slow way: a Python loop, one head after the other."""
from dataclasses import dataclass

import numpy as np


@dataclass
class Config:
    d_model: int = 32
    n_heads: int = 4
    seq_len: int = 10
    seed: int = 7


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    x = np.exp(x - x.max(axis=axis, keepdims=True))
    return x / x.sum(axis=axis, keepdims=True)


def one_head(q, k, v):
    return softmax(q @ k.T / np.sqrt(q.shape[1])) @ v


def multi_head_attention(
    x: np.ndarray,
    W_q: np.ndarray,
    W_k: np.ndarray,
    W_v: np.ndarray,
    W_o: np.ndarray,
    n_heads: int,
) -> np.ndarray:
    """x is (seq_len, d_model), all weights are (d_model, d_model)."""
    d_model = x.shape[-1]
    if d_model % n_heads:
        raise ValueError(f"{d_model} is not a multiple of {n_heads}")
    size = d_model // n_heads
    Q, K, V = x @ W_q, x @ W_k, x @ W_v
    heads = []
    for h in range(n_heads):
        cols = slice(h * size, (h + 1) * size)
        heads.append(one_head(Q[:, cols], K[:, cols], V[:, cols]))
    return np.concatenate(heads, axis=-1) @ W_o


def main(cfg: Config = Config()) -> None:
    rng = np.random.default_rng(cfg.seed)
    x = rng.standard_normal((cfg.seq_len, cfg.d_model))
    weights = rng.standard_normal((4, cfg.d_model, cfg.d_model)) / np.sqrt(cfg.d_model)
    y = multi_head_attention(x, *weights, n_heads=cfg.n_heads)
    print(y.shape, y.std())


if __name__ == "__main__":
    main()
