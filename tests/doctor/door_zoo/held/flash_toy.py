"""Toy flash attention against the plain one (pure PyTorch, slow, to understand it)."""
import math
import time

import torch

BLOCK = 16
NEG = -1e10
device = "cuda" if torch.cuda.is_available() else "cpu"


def naive_causal_attention(q, k, v):
    n = q.shape[-2]
    att = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    tril = torch.tril(torch.ones(n, n, device=q.device), diagonal=1)
    att = att.masked_fill(tril == 0, float("-inf"))
    return torch.softmax(att, dim=-1) @ v


def flash_attention(Q, K, V, block_size=BLOCK):
    """
    Q, K, V: (batch, heads, seq, dim), no mask.
    Keys come block by block, with a running maximum and a running sum.
    """
    scale = 1.0 / math.sqrt(Q.shape[-1])
    O = torch.zeros(*Q.shape[:-1], V.shape[-1], dtype=Q.dtype, device=Q.device)
    l = torch.zeros(Q.shape[:-1], dtype=Q.dtype, device=Q.device)[..., None]
    m = torch.ones_like(l) * NEG

    for K_j, V_j in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        S_ij = torch.einsum("... i d, ... j d -> ... i j", Q * scale, K_j)
        m_ij = S_ij.amax(dim=-1, keepdim=True)
        m_new = torch.maximum(m, m_ij)
        P_ij = torch.exp(S_ij - m_new)
        correction = torch.exp(m - m_new)
        l = l * correction + P_ij.sum(dim=-1, keepdim=True)
        O = O * correction + P_ij @ V_j
        m = m_new
    return O / l


def bench(f, *args, reps=10):
    for _ in range(2):
        f(*args)
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(reps):
        f(*args)
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / reps * 1e3


if __name__ == "__main__":
    for n in (64, 256, 1024):
        qkv = [torch.randn(2, 4, n, 64, device=device) for _ in range(3)]
        print(f"n={n:5d} naive {bench(naive_causal_attention, *qkv):8.3f} ms"
              f"  flash {bench(flash_attention, *qkv):8.3f} ms")
