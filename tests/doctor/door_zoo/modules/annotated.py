"""Transformer from scratch, encoder side. Written while reading Vaswani et al."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def clones(layer, times):
    return nn.ModuleList(copy.deepcopy(layer) for _ in range(times))


def subsequent_mask(size):
    upper = torch.triu(torch.ones(1, size, size), diagonal=1)
    return upper == 0


def attention(query, key, value, mask=None, dropout=None):
    """All inputs are (batch, heads, length, d_k)."""
    logits = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if mask is not None:
        logits = logits.masked_fill(mask == 0, -1e9)
    probs = F.softmax(logits, dim=-1)
    if dropout is not None:
        probs = dropout(probs)
    return probs @ value, probs


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super(MultiHeadedAttention, self).__init__()
        assert d_model % h == 0
        self.h = h
        self.d_k = d_model // h
        self.projections = clones(nn.Linear(d_model, d_model), 4)
        self.dropout = nn.Dropout(dropout)
        self.attn = None  # kept for the plots

    def _heads(self, layer, x):
        return layer(x).view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)  # one mask for every head
        q, k, v = (self._heads(p, x) for p, x in zip(self.projections, (query, key, value)))
        x, self.attn = attention(q, k, v, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(query.size(0), -1, self.h * self.d_k)
        return self.projections[-1](x)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super(FeedForward, self).__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_2(self.dropout(F.relu(self.w_1(x))))


class Sublayer(nn.Module):
    def __init__(self, size, dropout):
        super(Sublayer, self).__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, fn):
        return x + self.dropout(fn(self.norm(x)))


if __name__ == "__main__":
    mha = MultiHeadedAttention(8, 512)
    x = torch.randn(2, 10, 512)
    print(mha(x, x, x, subsequent_mask(10)).shape)
