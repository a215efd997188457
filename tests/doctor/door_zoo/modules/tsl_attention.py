import numpy as np
import torch
import torch.nn as nn
from math import sqrt


class FutureMask():
    def __init__(self, length, device="cpu"):
        steps = torch.arange(length, device=device)
        self.mask = steps[None, :] > steps[:, None]


class FullAttention(nn.Module):
    def __init__(self, mask_flag=True, factor=5, scale=None, attention_dropout=0.1,
                 output_attention=False):
        super(FullAttention, self).__init__()
        self.scale = scale
        self.mask_flag = mask_flag
        self.output_attention = output_attention
        self.dropout = nn.Dropout(attention_dropout)

    def forward(self, queries, keys, values, attn_mask, tau=None, delta=None):
        B, L, H, E = queries.shape
        scale = self.scale or 1. / sqrt(E)

        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        if self.mask_flag:
            if attn_mask is None:
                attn_mask = FutureMask(L, device=queries.device)
            scores = scores.masked_fill(attn_mask.mask, -np.inf)

        weights = self.dropout((scale * scores).softmax(dim=-1))
        context = torch.einsum("bhls,bshd->blhd", weights, values)
        return context, weights if self.output_attention else None


class AttentionLayer(nn.Module):
    def __init__(self, attention, d_model, n_heads, d_keys=None, d_values=None):
        super(AttentionLayer, self).__init__()
        d_keys = d_keys or (d_model // n_heads)
        d_values = d_values or (d_model // n_heads)

        self.inner_attention = attention
        self.query_projection = nn.Linear(d_model, d_keys * n_heads)
        self.key_projection = nn.Linear(d_model, d_keys * n_heads)
        self.value_projection = nn.Linear(d_model, d_values * n_heads)
        self.out_projection = nn.Linear(d_values * n_heads, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values, attn_mask, tau=None, delta=None):
        heads = (self.n_heads, -1)
        out, attn = self.inner_attention(
            self.query_projection(queries).unflatten(-1, heads),
            self.key_projection(keys).unflatten(-1, heads),
            self.value_projection(values).unflatten(-1, heads),
            attn_mask, tau=tau, delta=delta)
        return self.out_projection(out.flatten(2)), attn


class EncoderLayer(nn.Module):
    def __init__(self, d_model=512, n_heads=8, dropout=0.1):
        super(EncoderLayer, self).__init__()
        self.attention = AttentionLayer(FullAttention(False), d_model, n_heads)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, attn_mask=None):
        new_x, attn = self.attention(x, x, x, attn_mask)
        return self.norm(x + self.dropout(new_x)), attn
