import torch
from einops import rearrange
from torch import einsum, nn


def exists(val):
    return val is not None


class FeedForward(nn.Module):
    def __init__(self, dim, mult=4):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, dim * mult),
            nn.GELU(),
            nn.Linear(dim * mult, dim)
        )

    def forward(self, x):
        return self.net(x)


class LatentAttention(nn.Module):
    """ latents (b, m, dim) read from a long input (b, n, dim) """

    def __init__(self, dim, *, heads=8, dim_head=64):
        super().__init__()
        self.heads = heads
        self.scale = dim_head ** -0.5
        inner_dim = heads * dim_head

        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_k = nn.Linear(dim, inner_dim, bias=False)
        self.to_v = nn.Linear(dim, inner_dim, bias=False)
        self.to_out = nn.Linear(inner_dim, dim, bias=False)

    def forward(self, latents, context, mask=None):
        q = rearrange(self.to_q(latents), 'b n (h d) -> b h n d', h=self.heads)
        k = rearrange(self.to_k(context), 'b n (h d) -> b h n d', h=self.heads)
        v = rearrange(self.to_k(context), 'b n (h d) -> b h n d', h=self.heads)

        sim = einsum('b h i d, b h j d -> b h i j', q * self.scale, k)
        if exists(mask):
            mask = rearrange(mask, 'b j -> b 1 1 j')  # True: token exists
            sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)

        out = einsum('b h i j, b h j d -> b h i d', attn, v)
        out = rearrange(out, 'b h n d -> b n (h d)')
        return self.to_out(out)


class Resampler(nn.Module):
    def __init__(self, dim, num_latents=16, depth=2, heads=4, dim_head=16):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim) * 0.02)
        self.layers = nn.ModuleList([
            nn.ModuleList([LatentAttention(dim, heads=heads, dim_head=dim_head),
                           FeedForward(dim)])
            for _ in range(depth)
        ])

    def forward(self, x, mask=None):
        lat = self.latents.expand(x.shape[0], -1, -1)
        for attn, ff in self.layers:
            lat = attn(lat, x, mask=mask) + lat
            lat = ff(lat) + lat
        return lat
