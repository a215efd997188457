from __future__ import annotations

import math
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class DecoderConfig:
    d_model: int = 512
    n_heads: int = 8
    n_layers: int = 6
    max_len: int = 1024
    vocab_size: int = 8192


class LayerCache:
    """Keys and values of the tokens seen so far, in buffers of a fixed length."""

    def __init__(self, batch: int, heads: int, max_len: int, head_dim: int, dtype=torch.float32):
        self.k = torch.zeros(batch, heads, max_len, head_dim, dtype=dtype)
        self.v = torch.zeros(batch, heads, max_len, head_dim, dtype=dtype)
        self.length = 0

    def update(self, k: torch.Tensor, v: torch.Tensor):
        start, stop = self.length, self.length + k.size(2)
        self.k[:, :, start:stop] = k
        keys = self.k[:, :, :stop]
        values = self.v[:, :, :stop].clone()
        values[:, :, start:stop] = v
        self.length = stop
        return keys, values


class CachedAttention(nn.Module):
    def __init__(self, cfg: DecoderConfig):
        super().__init__()
        self.cfg = cfg
        self.n_heads = cfg.n_heads
        self.head_dim = cfg.d_model // cfg.n_heads
        self.wqkv = nn.Linear(cfg.d_model, 3 * cfg.d_model, bias=False)
        self.wo = nn.Linear(cfg.d_model, cfg.d_model, bias=False)

    def forward(self, x: torch.Tensor, cache: Optional[LayerCache] = None) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.wqkv(x).chunk(3, dim=-1)
        q, k, v = (y.view(b, t, self.n_heads, self.head_dim).transpose(1, 2) for y in (q, k, v))
        past = 0
        if cache is not None:
            past = cache.length
            k, v = cache.update(k, v)
        s = k.size(2)
        rows = torch.arange(past, past + t, device=x.device)[:, None]
        keep = torch.arange(s, device=x.device)[None] <= rows
        att = (q @ k.transpose(-2, -1)) / math.sqrt(self.head_dim)
        att = att.masked_fill(~keep, float("-inf")).softmax(dim=-1)
        return self.wo((att @ v).transpose(1, 2).reshape(b, t, c))


class Decoder(nn.Module):
    def __init__(self, cfg: DecoderConfig):
        super().__init__()
        self.cfg = cfg
        self.emb = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.layers = nn.ModuleList([CachedAttention(cfg) for _ in range(cfg.n_layers)])
        self.head = nn.Linear(cfg.d_model, cfg.vocab_size)

    @torch.no_grad()
    def generate(self, ids: torch.Tensor, steps: int) -> torch.Tensor:
        cfg = self.cfg
        caches = [
            LayerCache(ids.size(0), cfg.n_heads, cfg.max_len, cfg.d_model // cfg.n_heads) for _ in self.layers
        ]
        new = ids
        for _ in range(steps):
            x = self.emb(new)
            for layer, cache in zip(self.layers, caches):
                x = x + layer(x, cache)
            new = self.head(x[:, -1:]).argmax(-1)
            ids = torch.cat([ids, new], dim=1)
        return ids
