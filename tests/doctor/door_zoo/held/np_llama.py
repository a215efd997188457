from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np


@dataclass
class Args:
    dim: int = 64
    n_heads: int = 4
    max_seq_len: int = 128
    max_batch_size: int = 4


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


class CachedAttention:
    """Attention of a decoder that keeps the keys and values it has seen.

    The weights are (in, out). A call takes the tokens from start_pos on.
    """

    def __init__(self, wq: np.ndarray, wk: np.ndarray, wv: np.ndarray, wo: np.ndarray,
                 args: Args):
        self.wq, self.wk, self.wv, self.wo = wq, wk, wv, wo
        self.n_heads = args.n_heads
        self.head_dim = args.dim // args.n_heads
        shape = (args.max_batch_size, args.max_seq_len, self.n_heads, self.head_dim)
        self.cache_k = np.zeros(shape)
        self.cache_v = np.zeros(shape)

    def __call__(self, x: np.ndarray, start_pos: int = 0) -> np.ndarray:
        B, L, _ = x.shape
        end = start_pos + L
        split = (B, L, self.n_heads, self.head_dim)
        xq = (x @ self.wq).reshape(split)
        self.cache_k[:B, start_pos:end] = (x @ self.wk).reshape(split)
        self.cache_v[:B, start_pos:end] = (x @ self.wv).reshape(split)
        ks = self.cache_k[:B, :end].transpose(0, 2, 3, 1)
        vs = self.cache_v[:B, :end].transpose(0, 2, 1, 3)
        scores = xq.transpose(0, 2, 1, 3) @ ks / np.sqrt(self.head_dim)
        if L > 1:
            # columns of the cache are in the past of every query
            future = np.triu(np.full((L, L), -np.inf), k=1)
            scores = scores + np.concatenate([np.zeros((L, start_pos)), future], axis=1)
        out = softmax(scores) @ vs
        return out.transpose(0, 2, 1, 3).reshape(B, L, -1) @ self.wo


def sample(logits, temperature=0.8):
    p = softmax(logits / temperature)
    return int(np.random.choice(len(p), p=p))


def generate(layer, embedding, prompt, n):
    ids = list(prompt)
    h = layer(embedding[None, ids])
    for _ in range(n):
        ids.append(sample(h[0, -1] @ embedding.T))
        h = layer(embedding[None, ids[-1:]], start_pos=len(ids) - 1)
    return ids


if __name__ == "__main__":
    args = Args()
    r = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    weights = [r.normal(size=(args.dim, args.dim)) / 8 for _ in range(4)]
    table = r.normal(size=(50, args.dim))
    print(generate(CachedAttention(*weights, args), table, [1, 2, 3], 10))
