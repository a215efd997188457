"""Attention as people write it, none of it in the doctor's form."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class HeadsFirst(nn.Module):
    """The heads come first, the sides are separate, and the mask is (b, i, j)."""

    def __init__(self, heads, d_model, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // heads, heads
        self.scale = math.sqrt(self.d_k)
        self.q_linear, self.k_linear = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v_linear, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        batch = q.size(0)
        k, q, v = (f(side).view(batch, -1, self.h, self.d_k).transpose(1, 2) for f, side in (
            (self.k_linear, k), (self.q_linear, q), (self.v_linear, v)))
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.scale
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        context = torch.matmul(self.dropout(F.softmax(scores, dim=-1)), v)
        return self.out(context.transpose(1, 2).reshape(batch, -1, self.h * self.d_k))


class Configured(nn.Module):
    """A config object, packed projections, and a causal mask of its own."""

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.drop = nn.Dropout(config.attn_pdrop)
        self.n_head, size = config.n_head, config.block_size
        self.register_buffer("tri", torch.tril(torch.ones(size, size)))

    def forward(self, x):
        b, n, e = x.size()
        q, k, v = (side.view(b, n, self.n_head, -1).transpose(1, 2)
                   for side in self.c_attn(x).split(e, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.tri[:n, :n] == 0, float("-inf"))
        context = self.drop(F.softmax(scores, dim=-1)) @ v
        return self.c_proj(context.transpose(1, 2).contiguous().view(b, n, e))


class Unmasked(nn.Module):
    """A width of the heads, no biases, no mask."""

    def __init__(self, dim, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        self.heads, self.scale = heads, dim_head ** -0.5
        self.to_qkv = nn.Linear(dim, dim_head * heads * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim_head * heads, dim), nn.Dropout(dropout))

    def forward(self, x):
        q, k, v = (side.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for side in self.to_qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-1, -2) * self.scale).softmax(dim=-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


class TrueHides(nn.Module):
    """A padding mask in which True hides, and three results."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim, bias=bias) for _ in range(4))

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True):
        q, k, v = (f(side).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f, side in (
            (self.q_proj, query), (self.k_proj, key), (self.v_proj, value)))
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
        weights = scores.softmax(dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights, None


class Added(nn.Module):
    """A mask that is added to the scores, and a memory that may be left out."""

    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.n = num_attention_heads
        self.query, self.key, self.value, self.dense = (
            nn.Linear(hidden_size, hidden_size) for _ in range(4))

    def forward(self, hidden_states, attention_mask=None, encoder_hidden_states=None):
        side = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        q, k, v = (f(one).unflatten(-1, (self.n, -1)).transpose(1, 2) for f, one in (
            (self.query, hidden_states), (self.key, side), (self.value, side)))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores + attention_mask
        return ((self.dense((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))),)


class Needed(nn.Module):
    """A mask (b, j) of ones and zeros that must be given."""

    def __init__(self, n_heads, d_model, d_k, d_v):
        super().__init__()
        self.h = n_heads
        self.w_qs, self.w_ks = (nn.Linear(d_model, n_heads * d_k) for _ in range(2))
        self.w_vs, self.fc = nn.Linear(d_model, n_heads * d_v), nn.Linear(n_heads * d_v, d_model)

    def forward(self, x, context, mask):
        q, k, v = (f(side).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, side in (
            (self.w_qs, x), (self.w_ks, context), (self.w_vs, context)))
        hidden = (1.0 - mask[:, None, None, :].double()) * -1e9
        weights = (q @ k.mT / q.shape[-1] ** 0.5 + hidden.to(q.dtype)).softmax(-1)
        return self.fc((weights @ v).transpose(1, 2).flatten(2)), weights


class Unscaled(HeadsFirst):
    """Its scores are not divided."""

    def __init__(self, heads, d_model, dropout=0.1):
        super().__init__(heads, d_model, dropout)
        self.scale = 1.0


class Torn(nn.Module):
    """Its projections are viewed as (b, h, i, d) at once."""

    def __init__(self, emb_size, num_heads):
        super().__init__()
        self.h = num_heads
        self.queries, self.keys, self.values, self.projection = (
            nn.Linear(emb_size, emb_size) for _ in range(4))

    def forward(self, x):
        b, n, e = x.shape
        q, k, v = (f(x).view(b, self.h, n, e // self.h)
                   for f in (self.queries, self.keys, self.values))
        weights = (q @ k.mT / (e // self.h) ** 0.5).softmax(dim=-1)
        return self.projection((weights @ v).transpose(1, 2).reshape(b, n, e))


class Strange(nn.Module):
    """Nobody can know what this one wants."""

    def __init__(self, d_model, n_heads, temperature_schedule):
        super().__init__()


def one_head(q, k, v):
    scores = q @ k.T / np.sqrt(k.shape[-1])
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True) @ v


def hides(Q, K, V, attn_mask):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / np.sqrt(Q.shape[-1])
    weights = scores.masked_fill(attn_mask, -1e9).softmax(dim=-1)
    return weights @ V, weights


def batched(query, key, value, dropout=None):
    scores = torch.bmm(query, key.transpose(1, 2)) / query.size(-1) ** 0.5
    return torch.bmm(F.softmax(scores, dim=-1), value)


def added(q, k, v, mask):
    scores = q @ k.T / np.sqrt(q.shape[-1]) + mask
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True) @ v


def unscaled(queries, keys, values):
    return (queries @ keys.transpose(-2, -1)).softmax(dim=-1) @ values


def over_queries(queries, keys, values):
    return (queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(dim=-2) @ values


def causal(q, k, v):
    past = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(~past, -torch.inf).softmax(dim=-1) @ v
