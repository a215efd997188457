"""Attention as torch modules: packed projections, buffers, lists of heads."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from utils.parity import weights as layouts
from zoo.layer_masks import four_axes
from zoo.specimen import specimen


@specimen("layer", module=True, causal=True, self_attention=True, masks="none",
          packed="c_attn", roles={"o": "c_proj"},
          call=lambda module, x, memory, keep: module(x))
class CausalSelfAttention(nn.Module):
    """One matrix for q, k and v, a buffer of ones below the diagonal."""

    def __init__(self, d_model, n_heads, block_size=64):
        super().__init__()
        self.n_heads = n_heads
        self.c_attn = nn.Linear(d_model, 3 * d_model)
        self.c_proj = nn.Linear(d_model, d_model)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (part.view(B, T, self.n_heads, C // self.n_heads).transpose(1, 2)
                   for part in self.c_attn(x).split(C, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


@specimen("layer", module=True, self_attention=True, fully_masked="average",
          packed="qkv", roles={"o": "proj"},
          call=lambda module, x, memory, keep: module(x, keep))
class VisionBlock(nn.Module):
    """Reshape once to (3, b, h, n, d), as vision transformers do."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, keep=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        if keep is not None:
            attn = attn.masked_fill(~keep, -torch.finfo(attn.dtype).max)
        return self.proj((attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C))


@specimen("layer", module=True, self_attention=True, fully_masked="average", roles=None,
          reads=lambda module: layouts.from_interleaved(module.state_dict(), module.num_heads),
          call=lambda module, x, memory, keep: module(x, keep))
class PackedByHead(nn.Module):
    """The packed matrix is laid out head by head, (h, 3, d), as in GPT-NeoX and UvA's tutorial."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_key_value = nn.Linear(embed_dim, 3 * embed_dim)
        self.dense = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, mask=None):
        batch_size, seq_length, embed_dim = x.size()
        qkv = self.query_key_value(x).reshape(batch_size, seq_length, self.num_heads, -1)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        logits = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -9e15)
        values = torch.matmul(F.softmax(logits, dim=-1), v)
        return self.dense(values.permute(0, 2, 1, 3).reshape(batch_size, seq_length, embed_dim))


@specimen("layer", "packed order", module=True, self_attention=True, fully_masked="average",
          packed="qkv", roles={"o": "proj"},
          note="the rows of qkv.weight are [q | k | v], and they are unpacked as k, q, v; in "
               "self-attention the same as q and k swapped",
          fixed=("k, q, v = self", "q, k, v = self"),
          call=lambda module, x, memory, keep: module(x, keep))
class KeysFirst(nn.Module):
    """One projection, three chunks."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, keep=None):
        k, q, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (side.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for side in (q, k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.size(-1) ** 0.5
        if keep is not None:
            scores = scores.masked_fill(keep.logical_not(), -1e9)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def read_heads(module):
    """Return the weight set of ``ListOfHeads``, whose projections are one matrix for each head."""
    stacked = {name: torch.cat([head[name].weight for head in module.heads])
               for name in ("query", "key", "value")}
    return layouts.from_linear({f"{name}.weight": w.detach() for name, w in stacked.items()}
                               | module.state_dict(), (*stacked, "proj"))


@specimen("layer", module=True, roles=None, reads=read_heads, fully_masked="nan",
          call=lambda module, x, memory, keep: module(x, memory, four_axes(keep)))
class ListOfHeads(nn.Module):
    """A list of single heads, each with small matrices of its own and no bias."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(d_model, d_model // n_heads, bias=False)
                           for name in ("key", "query", "value")}) for _ in range(n_heads))
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, memory, keep=None):
        outs = []
        for h, head in enumerate(self.heads):
            q, k, v = head["query"](x), head["key"](memory), head["value"](memory)
            wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            if keep is not None:
                mask = keep[:, h if keep.shape[1] > 1 else 0]
                wei = wei.masked_fill(mask == 0, float("-inf"))
            outs.append(F.softmax(wei, dim=-1) @ v)
        return self.proj(torch.cat(outs, dim=-1))
