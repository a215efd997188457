"""Sliding window attention, the simple O(n^2) version to test the kernel against."""
from __future__ import annotations

import math

import torch
from torch import nn


def sliding_window_mask(n: int, window: int, device=None) -> torch.Tensor:
    """(n, n), True where position i may see position j: i - window < j <= i."""
    i = torch.arange(n, device=device).view(-1, 1)
    j = torch.arange(n, device=device).view(1, -1)
    return (j <= i) & (j > i - window)


class SlidingWindowAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, window: int = 3, dropout: float = 0.0):
        super().__init__()
        self.n_heads = n_heads
        self.window = window
        self.head_dim = dim // n_heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, dim = x.shape
        q, k, v = self.wqkv(x).chunk(3, dim=-1)
        q = q.reshape(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        k = k.reshape(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        v = v.reshape(b, n, self.n_heads, self.head_dim).transpose(1, 2)

        s = q @ k.mT / math.sqrt(self.head_dim)
        s = s.masked_fill(~sliding_window_mask(n, self.window, x.device), -math.inf)
        a = self.drop(s.softmax(dim=-1))
        return self.wo((a @ v).transpose(1, 2).flatten(2))


def receptive_field(n_layers: int, window: int) -> int:
    return n_layers * (window - 1) + 1


def main():
    torch.manual_seed(0)
    attn = SlidingWindowAttention(32, 4, window=5).eval()
    x = torch.randn(1, 12, 32)
    base = attn(x)
    x[:, 0] += 1.0
    changed = (attn(x) - base).abs().sum(-1)[0] > 1e-6
    print("positions that see token 0:", changed.nonzero().flatten().tolist())
    print("after 4 layers:", receptive_field(4, 5))


if __name__ == "__main__":
    main()
