import math

import torch
from torch import nn, einsum
from einops import rearrange


class RelativePositionBias(nn.Module):
    def __init__(self, causal=False, num_buckets=32, max_distance=128, heads=8):
        super().__init__()
        self.causal = causal
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.relative_attention_bias = nn.Embedding(num_buckets, heads)

    def _bucket(self, rel):
        ret, n, num = 0, -rel, self.num_buckets
        if not self.causal:
            num //= 2
            ret = (n < 0).long() * num
            n = n.abs()
        else:
            n = n.clamp(min=0)
        exact = num // 2
        ratio = (n.float().clamp(min=1) / exact).log() / math.log(self.max_distance / exact)
        large = (exact + (ratio * (num - exact)).long()).clamp(max=num - 1)
        return ret + torch.where(n < exact, n, large)

    def forward(self, i, j, device):
        rel = torch.arange(j, device=device)[None] - torch.arange(i, device=device)[:, None]
        return rearrange(self.relative_attention_bias(self._bucket(rel)), 'i j h -> h i j')


class T5Attention(nn.Module):
    def __init__(self, *, dim, heads=12, dim_head=64, causal=False, dropout=0.):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads, self.causal = heads, causal
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_k = nn.Linear(dim, inner_dim, bias=False)
        self.to_v = nn.Linear(dim, inner_dim, bias=False)
        self.to_out = nn.Linear(inner_dim, dim, bias=False)
        # T5 has no scale, its initialisation does that
        nn.init.normal_(self.to_q.weight, std=(dim * dim_head) ** -0.5)
        self.rel = RelativePositionBias(causal=causal, heads=heads)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        q, k, v = (rearrange(f(x), 'b n (h d) -> b h n d', h=self.heads)
                   for f in (self.to_q, self.to_k, self.to_v))
        sim = einsum('bhid,bhjd->bhij', q, k)
        sim = sim + self.rel(sim.shape[-2], sim.shape[-1], x.device)
        neg = -torch.finfo(sim.dtype).max
        if mask is not None:
            sim = sim.masked_fill(~mask[:, None, None, :], neg)
        if self.causal:
            i, j = sim.shape[-2:]
            sim = sim.masked_fill(torch.ones(i, j, device=x.device).triu(1).bool(), neg)
        attn = self.dropout(sim.softmax(dim=-1))
        return self.to_out(rearrange(attn @ v, 'b h n d -> b n (h d)'))


class TalkingHeadsAttention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=False, attn_drop=0., proj_drop=0.):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj_l = nn.Linear(num_heads, num_heads)
        self.proj_w = nn.Linear(num_heads, num_heads)
        self.proj = nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = self.proj_l(attn.permute(0, 2, 3, 1)).softmax(dim=-2)
        attn = self.attn_drop(self.proj_w(attn).permute(0, 3, 1, 2))
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))
