"""Layers written with einops."""

import torch
from einops import einsum, rearrange, repeat
from torch import nn

from utils.parity import weights as layouts
from zoo.specimen import specimen


def read_to_kv(module):
    """Return the weight set of a module with to_q, to_kv (keys, then values) and to_out."""
    params = module.state_dict()
    qkv = {name: torch.cat([params[f"to_q.{name}"], params[f"to_kv.{name}"]])
           for name in ("weight", "bias")}
    return layouts.from_qkv_module({f"W_qkv.{name}": part for name, part in qkv.items()}
                                   | {f"W_o.{n}": params[f"to_out.{n}"] for n in qkv})


@specimen("layer", module=True, roles=None, reads=read_to_kv, fully_masked="average",
          call=lambda module, x, memory, keep: module(x, memory, keep))
class CrossAttention(nn.Module):
    """Queries from x, keys and values in one matrix from the context."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, dim * 2)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, context, mask=None):
        q, (k, v) = self.to_q(x), self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in (q, k, v))
        sim = torch.einsum("b h i d, b h j d -> b h i j", q * self.scale, k)
        if mask is not None:
            sim.masked_fill_(~mask, -torch.finfo(sim.dtype).max)
        out = torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))


@specimen("layer", "values come from x, not from the memory", listed=False, module=True,
          square=True, fully_masked="average",
          note="to_v(x): with as many keys as queries the shapes agree",
          roles={"q": "to_q", "k": "to_k", "v": "to_v", "o": "to_out"},
          call=lambda module, x, memory, keep: module(x, memory, keep),
          fixed=("self.to_v(x)", "self.to_v(context)"))
class ValuesFromX(nn.Module):
    """Three projections, one of them of the context."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, context, mask=None):
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(x)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in (q, k, v))
        dots = einsum(q, k, "b h i d, b h j d -> b h i j") * q.shape[-1] ** -0.5
        if mask is not None:
            dots = dots.masked_fill(~mask, torch.finfo(dots.dtype).min)
        out = einsum(dots.softmax(-1), v, "b h i j, b h j d -> b h i d")
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))


def attend(q, k, v, keep):
    dots = einsum(q, k, "b h i d, b h j d -> b h i j") * q.shape[-1] ** -0.5
    if keep is not None:
        dots = torch.where(keep, dots, -torch.inf)
    return einsum(dots.softmax(-1).nan_to_num(0), v, "b h i j, b h j d -> b h i d")


def heads(x, weights, name, n_heads):
    return rearrange(x @ weights[f"W_{name}"] + weights[f"b_{name}"], "b n (h d) -> b h n d",
                     h=n_heads)


@specimen("layer", "the features of the heads are merged as (d h)", listed=False,
          note="the merge puts the features outside and the heads inside, the split did not",
          fixed=("b n (d h)", "b n (h d)"))
def features_before_heads(x, memory, weights, n_heads, keep):
    """Rearrange there, rearrange back."""
    q = heads(x, weights, "q", n_heads)
    k, v = heads(memory, weights, "k", n_heads), heads(memory, weights, "v", n_heads)
    out = rearrange(attend(q, k, v, keep), "b h n d -> b n (d h)")
    return out @ weights["W_o"] + weights["b_o"]


def packed(x, weights):
    """Project x by the three matrices side by side, [q | k | v]."""
    W = torch.cat([weights[f"W_{n}"] for n in "qkv"], dim=1)
    return x @ W + torch.cat([weights[f"b_{n}"] for n in "qkv"])


@specimen("layer", "packed as (qkv h d), read as (h d qkv)", listed=False, self_attention=True,
          note="the three sides are taken to alternate from feature to feature",
          fixed=("(h d qkv)", "(qkv h d)"))
def sides_innermost(x, memory, weights, n_heads, keep):
    """One rearrange from the packed projection to q, k, v."""
    q, k, v = rearrange(packed(x, weights), "b n (h d qkv) -> qkv b h n d", h=n_heads, qkv=3)
    out = rearrange(attend(q, k, v, keep), "b h n d -> b n (h d)")
    return out @ weights["W_o"] + weights["b_o"]


@specimen("layer", "interleaved packing", self_attention=True,
          source="https://github.com/lablup/mlxcel/pull/928",
          note="the checkpoint is packed head by head, (h qkv d), and read in three blocks",
          fixed=("(qkv h d) -> qkv", "(h qkv d) -> qkv"))
def checkpoint_packed_by_head(x, memory, weights, n_heads, keep):
    """Pack the weights as GPT-NeoX's checkpoints are, then run the usual three blocks."""
    W = rearrange([weights[f"W_{n}"] for n in "qkv"], "qkv e (h d) -> e (h qkv d)", h=n_heads)
    b = rearrange([weights[f"b_{n}"] for n in "qkv"], "qkv (h d) -> (h qkv d)", h=n_heads)
    q, k, v = rearrange(x @ W + b, "b n (qkv h d) -> qkv b h n d", h=n_heads, qkv=3)
    out = rearrange(attend(q, k, v, keep), "b h n d -> b n (h d)")
    return out @ weights["W_o"] + weights["b_o"]


@specimen("layer", fully_masked="average", masks="heads alike")
def folded_and_unfolded(x, memory, weights, n_heads, keep):
    """Fold the heads into the batch for bmm, repeat the mask alike, unfold."""
    q, k, v = (rearrange(side @ weights[f"W_{n}"] + weights[f"b_{n}"], "b n (h d) -> (b h) n d",
                         h=n_heads) for side, n in ((x, "q"), (memory, "k"), (memory, "v")))
    sim = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
    if keep is not None:
        keep = keep.expand(len(x), 1, x.shape[1], memory.shape[1])
        sim[~repeat(keep, "b 1 i j -> (b h) i j", h=n_heads)] = -1e9
    out = rearrange(sim.softmax(-1) @ v, "(b h) n d -> b n (h d)", h=n_heads)
    return out @ weights["W_o"] + weights["b_o"]
