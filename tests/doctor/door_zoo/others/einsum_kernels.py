"""Two ways to lay out the heads.

`attend_bnhd` takes what comes out of the projection without moving an axis,
`attend_bhnd` takes the heads in front of the positions.
"""
import torch
from torch import einsum
from einops import rearrange


def attend_bnhd(q, k, v, causal=False):
    # q: b i h d, k and v: b j h d
    sim = einsum("b i h d, b j h d -> b h i j", q, k) * q.shape[-1] ** -0.5
    if causal:
        i, j = sim.shape[-2:]
        later = torch.ones(i, j, dtype=torch.bool, device=q.device).triu(j - i + 1)
        sim = sim.masked_fill(later, -torch.finfo(sim.dtype).max)
    attn = sim.softmax(dim=-1)
    return einsum("b h i j, b j h d -> b i h d", attn, v)


def attend_bhnd(q, k, v, mask=None):
    # q: b h i d, k and v: b h j d, mask: b j (False for padding)
    sim = einsum("b h i d, b h j d -> b h i j", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        mask = rearrange(mask, "b j -> b 1 1 j")
        sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
    attn = sim.softmax(dim=1)
    return einsum("b h i j, b h j d -> b h i d", attn, v)


def project(x, w, heads):
    return rearrange(x @ w, "b n (h d) -> b n h d", h=heads)


if __name__ == "__main__":
    b, n, dim, heads = 2, 7, 32, 4
    x = torch.randn(b, n, dim)
    ws = [torch.randn(dim, dim) * dim ** -0.5 for _ in range(3)]
    q, k, v = (project(x, w, heads) for w in ws)
    one = attend_bnhd(q, k, v)
    two = attend_bhnd(*(rearrange(t, "b n h d -> b h n d") for t in (q, k, v)))
    print(one.shape, two.shape)
