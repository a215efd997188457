import math
from abc import abstractmethod

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_embedding(timesteps, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32) / half).to(timesteps.device)
    args = timesteps[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


def norm_layer(channels, groups=32):
    return nn.GroupNorm(math.gcd(groups, channels), channels)


class TimestepBlock(nn.Module):
    @abstractmethod
    def forward(self, x, emb):
        ...


class ResidualBlock(TimestepBlock):
    def __init__(self, c_in, c_out, t_dim, dropout=0.1):
        super().__init__()
        self.conv1 = nn.Sequential(norm_layer(c_in), nn.SiLU(), nn.Conv2d(c_in, c_out, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(t_dim, c_out))
        self.conv2 = nn.Sequential(
            norm_layer(c_out), nn.SiLU(), nn.Dropout(dropout), nn.Conv2d(c_out, c_out, 3, padding=1)
        )
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(x)
        h = h + self.time(t)[:, :, None, None]
        return self.conv2(h) + self.skip(x)


class AttentionBlock(nn.Module):
    """Self-attention over the pixels of a feature map, with a residual connection."""

    def __init__(self, channels, num_heads=1):
        super().__init__()
        assert channels % num_heads == 0
        self.num_heads = num_heads
        self.norm = norm_layer(channels)
        self.qkv = nn.Conv2d(channels, channels * 3, kernel_size=1, bias=False)
        self.proj = nn.Conv2d(channels, channels, kernel_size=1)

    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(B * self.num_heads, -1, H * W).chunk(3, dim=1)
        scale = 1.0 / math.sqrt(math.sqrt(C // self.num_heads))
        attn = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        attn = attn.softmax(dim=-1)
        h = torch.einsum("bts,bcs->bct", attn, v)
        h = h.reshape(B, -1, H, W)
        return self.proj(h) + x


class Down(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.op = nn.Conv2d(c, c, 3, stride=2, padding=1)

    def forward(self, x):
        return self.op(x)


class UNet(nn.Module):
    def __init__(self, in_channels=3, width=128, mult=(1, 2, 2), attn_at=(1,), num_heads=4):
        super().__init__()
        t_dim = width * 4
        self.width = width
        self.time_embed = nn.Sequential(nn.Linear(width, t_dim), nn.SiLU(), nn.Linear(t_dim, t_dim))
        self.stem = nn.Conv2d(in_channels, width, 3, padding=1)
        self.stages = nn.ModuleList()
        c = width
        for i, m in enumerate(mult):
            stage = nn.ModuleList([ResidualBlock(c, width * m, t_dim)])
            c = width * m
            if i in attn_at:
                stage.append(AttentionBlock(c, num_heads))
            stage.append(Down(c))
            self.stages.append(stage)
        self.out = nn.Sequential(norm_layer(c), nn.SiLU(), nn.Conv2d(c, in_channels, 3, padding=1))

    def forward(self, x, t):
        emb = self.time_embed(timestep_embedding(t, self.width))
        h = self.stem(x)
        for stage in self.stages:
            for layer in stage:
                h = layer(h, emb) if isinstance(layer, TimestepBlock) else layer(h)
        return self.out(h)
