import torch
import torch.nn as nn
from einops import rearrange
from torch import einsum


class Downsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x):
        return self.op(x)


class SpatialAttention(nn.Module):
    """Every pixel of the feature map attends to every other pixel."""

    def __init__(self, channels, heads=4, groups=8):
        super().__init__()
        assert channels % heads == 0
        self.heads = heads
        self.scale = (channels // heads) ** -0.5
        self.norm = nn.GroupNorm(groups, channels)
        self.to_qkv = nn.Conv2d(channels, channels * 3, 1, bias=False)
        self.to_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=1)
        q, k, v = map(
            lambda t: rearrange(t, 'b (h c) x y -> b h c (x y)', h=self.heads), qkv
        )
        sim = einsum('b h d i, b h d j -> b h i j', q * self.scale, k)
        attn = sim.softmax(dim=-1)
        out = einsum('b h i j, b h d j -> b h i d', attn, v)
        out = rearrange(out, 'b h (x y) d -> b (h d) x y', x=h, y=w)
        return x + self.to_out(out)


class ResBlock(nn.Module):
    def __init__(self, in_ch, out_ch, groups=8):
        super().__init__()
        self.block = nn.Sequential(
            nn.GroupNorm(groups, in_ch), nn.SiLU(), nn.Conv2d(in_ch, out_ch, 3, padding=1)
        )
        self.skip = nn.Conv2d(in_ch, out_ch, 1) if in_ch != out_ch else nn.Identity()

    def forward(self, x):
        return self.block(x) + self.skip(x)


if __name__ == '__main__':
    net = nn.Sequential(ResBlock(8, 32), SpatialAttention(32), Downsample(32))
    print(net(torch.randn(2, 8, 16, 16)).shape)
