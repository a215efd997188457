"""The programs that this course grew from, as their sources have them or with their flaws."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from utils.parity import weights as layouts
from zoo.layer_masks import of_all_heads
from zoo.specimen import specimen

LINEARS = ("q_linear", "k_linear", "v_linear", "out")


def scaled_dot_product_attention(q, k, v, mask=None, dropout=None):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
    a = F.softmax(scores, dim=-1)
    if dropout is not None:
        a = dropout(a)
    return torch.matmul(a, v)


@specimen("layer", module=True, masks="heads alike", fully_masked="average",
          roles=dict(zip("qkvo", LINEARS, strict=True)),
          call=lambda module, x, memory, keep: module(x, memory, memory, of_all_heads(keep)))
class FourLinears(nn.Module):
    """Split by view and transpose; the mask is (b, i, j), 0 = drop."""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.q_linear = nn.Linear(d_model, d_model)
        self.v_linear = nn.Linear(d_model, d_model)
        self.k_linear = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        size = q.size(0), -1, self.n_heads, self.d_k
        qh = self.q_linear(q).view(size).transpose(1, 2)
        kh = self.k_linear(k).view(size).transpose(1, 2)
        vh = self.v_linear(v).view(size).transpose(1, 2)
        c = scaled_dot_product_attention(qh, kh, vh, mask, self.dropout)
        return self.out(c.transpose(1, 2).contiguous().view(q.size(0), -1, self.n_heads * self.d_k))


@specimen("layer", "new layer in every call", module=True, masks="none",
          note="nn.Linear is built in forward: the module has no parameters, nothing is learned",
          roles=None, reads=lambda module: layouts.from_linear(module.state_dict(), LINEARS),
          call=lambda module, x, memory, keep: module(x, memory, memory), fixed=FourLinears)
class FreshProjections(nn.Module):
    """Define the projection matrices where they are needed."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_model, self.head = d_model, n_heads

    def forward(self, query, key, value):
        w_q, w_k, w_v, w_o = (nn.Linear(self.d_model, self.d_model, dtype=query.dtype)
                              for _ in range(4))
        query, key, value = (
            w(side).view(side.shape[0], side.shape[1], self.head, -1).transpose(1, 2)
            for w, side in ((w_q, query), (w_k, key), (w_v, value)))
        out = scaled_dot_product_attention(query, key, value)
        return w_o(out.transpose(1, 2).contiguous().flatten(2))


@specimen("layer", "causal mask inverted", causal=True, self_attention=True, masks="none",
          note="triu marks the future with 1, and what is 0 is filled: only the future is left",
          fixed=("np.triu(np.ones(shape), k=1)", "np.tril(np.ones(shape))"),
          fully_masked="average")
def masked_self_attention(x, memory, weights, head, keep):
    """Mark the later positions, (b, i, i), and repeat the mask for every head."""
    shape = x.size(0), x.size(1), x.size(1)
    mask = torch.from_numpy(np.triu(np.ones(shape), k=1)).unsqueeze(1).repeat(1, head, 1, 1)
    query, key, value = (
        (x @ weights[f"W_{n}"] + weights[f"b_{n}"]).view(*x.shape[:2], head, -1).transpose(1, 2)
        for n in "qkv")
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    attention = F.softmax(scores.masked_fill(mask == 0, -1e9), dim=-1)
    out = torch.matmul(attention, value).transpose(1, 2).contiguous().view(*x.shape[:2], -1)
    return out @ weights["W_o"] + weights["b_o"]


@specimen("layer", module=True, masks="heads alike", fully_masked="nan",
          roles={"q": "query.linear", "k": "key.linear", "v": "value.linear", "o": "output"},
          call=lambda module, x, memory, keep: module(
              query=x.transpose(0, 1), key=memory.transpose(0, 1), value=memory.transpose(0, 1),
              mask=None if keep is None else of_all_heads(keep).permute(1, 2, 0)).transpose(0, 1))
class TimeFirst(nn.Module):
    """Inputs are (i, b, e), scores (i, j, b, h), the mask is (i, j, b), 0 = drop."""

    def __init__(self, d_model, heads, dropout_prob=0.1):
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(d_model // heads)
        self.query, self.key, self.value = (
            nn.ModuleDict({"linear": nn.Linear(d_model, d_model)}) for _ in range(3))
        self.softmax = nn.Softmax(dim=1)
        self.dropout = nn.Dropout(dropout_prob)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, *, query, key, value, mask=None):
        query, key, value = (role["linear"](side).view(*side.shape[:2], self.heads, -1)
                             for role, side in ((self.query, query), (self.key, key),
                                                (self.value, value)))
        scores = torch.einsum("ibhd,jbhd->ijbh", query, key) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(-1) == 0, float("-inf"))
        attn = self.dropout(self.softmax(scores))
        x = torch.einsum("ijbh,jbhd->ibhd", attn, value)
        return self.output(x.reshape(*x.shape[:2], -1))
