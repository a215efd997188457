"""Attention as people write it, none of it in the doctor's form."""

import math
import warnings

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


WIDTH = 64


class OwnWidth(nn.Module):
    """A head whose width stands in a global."""

    scale = True

    def __init__(self, head_size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(WIDTH, head_size) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).mT
        scores = scores / WIDTH ** 0.5 if self.scale else scores
        return scores.softmax(dim=-1) @ self.value(x)


class OwnWidthUnscaled(OwnWidth):
    scale = False


class Wide(nn.Module):
    """Each head is as wide as the model."""

    def __init__(self, emb, heads):
        super().__init__()
        self.heads = heads
        self.tokeys, self.toqueries, self.tovalues = (
            nn.Linear(emb, heads * emb, bias=False) for _ in range(3))
        self.unify = nn.Linear(heads * emb, emb)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (
            self.toqueries, self.tokeys, self.tovalues))
        return self.unify(self.merged(F.scaled_dot_product_attention(q, k, v)))

    def merged(self, context):
        return context.transpose(1, 2).flatten(2)


class WideTorn(Wide):
    def merged(self, context):
        return context.reshape(len(context), context.shape[2], -1)


class PerHead(nn.Module):
    """Its weights have an axis for the heads."""

    axis = -1

    def __init__(self, cfg):
        super().__init__()
        n, e, d = cfg.n_heads, cfg.d_model, cfg.d_head
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.randn(n, e, d)) for _ in range(3))
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(torch.randn(n, d)) for _ in range(3))
        self.W_O, self.b_O = nn.Parameter(torch.randn(n, d, e)), nn.Parameter(torch.randn(e))

    def forward(self, resid):
        q, k, v = (torch.einsum("bie,hed->bihd", resid, w) + b for w, b in (
            (self.W_Q, self.b_Q), (self.W_K, self.b_K), (self.W_V, self.b_V)))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        weights = scores.softmax(dim=self.axis)
        return torch.einsum("bhqk,bkhd,hde->bqe", weights, v, self.W_O) + self.b_O


class PerHeadOverQueries(PerHead):
    axis = -2


class Pixels(nn.Module):
    """Every pixel of an image attends to all pixels; a GroupNorm comes first."""

    divided = True

    def __init__(self, channels, groups=1):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(channels, channels, 1)
                                                 for _ in range(4))

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (part(self.norm(x)).reshape(b, c, h * w) for part in (self.q, self.k, self.v))
        scores = q.mT @ k / (c ** 0.5 if self.divided else 1.0)
        return x + self.proj_out((v @ scores.softmax(dim=-1).mT).reshape(b, c, h, w))


class PixelsUnscaled(Pixels):
    divided = False


class Gated(nn.Module):
    """Its context goes through a gate, and an RMSNorm comes first."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.heads, self.norm = num_heads, nn.RMSNorm(dim)
        self.qkv, self.gate, self.out = (nn.Linear(dim, n) for n in (3 * dim, dim, dim))

    def forward(self, x):
        y = self.norm(x)
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out(self.gate(y).sigmoid() * context)


class LearnedSink(nn.Module):
    """Each head has a learned score to which nothing belongs."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.heads, self.sinks = num_heads, nn.Parameter(torch.randn(num_heads))
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        sinks = self.sinks[:, None, None].expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1]
        return self.out((weights @ v).transpose(1, 2).flatten(2))


def from_dict(x, params, n_head):
    q, k, v = (x @ params[f"W{s}"] + params[f"b{s}"] for s in "qkv")
    heads = [np.split(side, n_head, axis=-1) for side in (q, k, v)]
    context = [_weights(q, k) @ v for q, k, v in zip(*heads, strict=True)]
    return np.concatenate(context, axis=-1) @ params["Wo"]


def from_dict_unscaled(x, params, n_head):
    return from_dict(x, Doubled(params, (len(x[0]) // n_head) ** 0.5), n_head)


class Doubled:
    """Weights whose W_q is multiplied by a factor."""

    def __init__(self, params, factor):
        self.params, self.factor = params, factor

    def __getitem__(self, name):
        return self.params[name] * (self.factor if name in ("Wq", "bq") else 1.0)


def _weights(q, k):
    scores = q @ k.T / q.shape[-1] ** 0.5
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def scripted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
             bias: torch.Tensor | None = None) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-1, -2)) / float(q.size(-1)) ** 0.5
    if bias is not None:
        scores = scores + bias
    return torch.matmul(torch.softmax(scores, dim=-1), v)


with warnings.catch_warnings():  # PyTorch recommends torch.compile in its place
    warnings.simplefilter("ignore")
    scripted = torch.jit.script(scripted)


def mask_without_heads(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
    return scores.softmax(dim=-1) @ v


def mask_of_keys(q, k, v, key_mask=None):
    b, h, n, _ = q.shape
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if key_mask is not None:
        scores = scores.masked_fill(~key_mask.view(b, 1, 1, -1), float("-inf"))
    return scores.softmax(dim=-1) @ v


def cosines(q, k, v):
    return (16 * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).softmax(dim=-1) @ v


def features(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return q @ (k.mT @ v) / ((q * k.sum(dim=-2, keepdim=True)).sum(-1, keepdim=True) + 1e-6)


def distances(q, k, v):
    n_heads, n_q, n_k = q.shape[1], q.shape[2], k.shape[2]
    slopes = {2: (2 ** -4, 2 ** -8), 3: (2 ** -4, 2 ** -8, 2 ** -2),
              5: (2 ** -2, 2 ** -4, 2 ** -6, 2 ** -8, 2 ** -1)}[n_heads]
    slopes = torch.tensor(slopes)[:, None, None]
    steps = (torch.arange(n_q)[:, None] - torch.arange(n_k)).abs()
    return (q @ k.mT / q.shape[-1] ** 0.5 - slopes * steps).softmax(dim=-1) @ v


def a_token_short(q, k, v):
    n, d = q.shape
    scores = q @ k.T / d ** 0.5
    scores[torch.tril(torch.ones(n, n), diagonal=-1) == 0] = -1e9
    return scores.softmax(dim=-1) @ v


class MemoryFirst(nn.Module):
    """x gives the keys and values, y the queries; both are equally long."""

    divided = True

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads, self.d = num_heads, d_model // num_heads
        self.kv, self.q, self.linear = (nn.Linear(d_model, n) for n in (
            2 * d_model, d_model, d_model))

    def forward(self, x, y, mask=None):
        b, n, e = x.shape
        k, v = self.kv(x).view(b, n, 2, self.heads, self.d).permute(2, 0, 3, 1, 4)
        q = self.q(y).view(b, n, self.heads, self.d).transpose(1, 2)
        scores = q @ k.mT / (self.d ** 0.5 if self.divided else 1.0)
        scores = scores if mask is None else scores + mask
        return self.linear((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, e))


class MemoryFirstUnscaled(MemoryFirst):
    divided = False


class Block(nn.Module):
    """An attention, and more than that."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, 50), nn.ReLU(), nn.Linear(50, d_model))

    def forward(self, x):
        x = x + self.self_attn(x, x, x)[0]
        return x + self.ff(x)
