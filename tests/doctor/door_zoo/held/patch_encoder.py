from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch import Tensor


class PatchEmbed(nn.Module):
    """Images to a row of patch tokens."""

    def __init__(self, img_size: int = 32, patch: int = 4, in_chans: int = 3,
                 embed_dim: int = 192):
        super().__init__()
        self.n_patches = (img_size // patch) ** 2
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).flatten(2).transpose(1, 2)


class PatchAttention(nn.Module):
    """Multi-head self-attention over patches."""

    def __init__(self, dim: int, n_heads: int = 12, qkv_bias: bool = True,
                 attn_p: float = 0.0, proj_p: float = 0.0):
        super().__init__()
        self.n_heads = n_heads
        self.dim = dim
        self.head_dim = dim // n_heads
        self.scale = self.head_dim ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(attn_p)
        self.proj_drop = nn.Dropout(proj_p)

    def forward(self, x: Tensor) -> Tensor:
        n_samples, n_tokens, dim = x.shape
        if dim != self.dim:
            raise ValueError(f"expected {self.dim} features, got {dim}")
        qkv = self.qkv(x)
        qkv = qkv.reshape(n_samples, n_tokens, 3, self.n_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        dp = (q @ k.transpose(-2, -1)) * self.scale
        attn = self.attn_drop(dp.softmax(dim=-1))
        weighted = attn @ v   # (n_samples, n_heads, n_tokens, head_dim)
        weighted = weighted.reshape(n_samples, n_tokens, dim)
        return self.proj_drop(self.proj(weighted))


class EncoderBlock(nn.Module):

    def __init__(self, dim: int, n_heads: int, mlp_ratio: float = 4.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = PatchAttention(dim, n_heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        hidden = int(dim * mlp_ratio)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def accuracy(logits: Tensor, y: Tensor) -> Tuple[int, int]:
    return int((logits.argmax(-1) == y).sum()), len(y)


if __name__ == "__main__":
    from torchvision.datasets import CIFAR10

    train_set = CIFAR10("./data", train=True, download=True)
    print(len(train_set), PatchEmbed().n_patches)
