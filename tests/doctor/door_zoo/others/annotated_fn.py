"""Building blocks for the en-de translation model."""
import copy
import math

import torch
import torch.nn as nn

MAX_LEN = 512
PAD = 0


def stack(layer, times):
    return nn.ModuleList([copy.deepcopy(layer) for _ in range(times)])


def future_mask(size):
    """(1, size, size), 1 at the places a decoder position may look at."""
    upper = torch.ones(1, size, size).triu(1)
    return (upper == 0).long()


def attention(query, key, value, mask=None, dropout=None):
    """query, key, value: (batch, heads, length, d_k)

    Where mask is zero the position is hidden. Gives back the context and the weights.
    """
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(-1)
    if dropout is not None:
        weights = dropout(weights)
    return torch.matmul(weights, value), weights


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, p=0.1):
        super().__init__()
        self.drop = nn.Dropout(p)
        pos = torch.arange(MAX_LEN).unsqueeze(1)
        freq = torch.exp(torch.arange(0, d_model, 2) * (-math.log(1e4) / d_model))
        table = torch.zeros(MAX_LEN, d_model)
        table[:, 0::2] = torch.sin(pos * freq)
        table[:, 1::2] = torch.cos(pos * freq)
        self.register_buffer("table", table.unsqueeze(0))

    def forward(self, x):
        return self.drop(x + self.table[:, : x.size(1)])


def make_masks(src, tgt):
    src_mask = (src != PAD).unsqueeze(-2)
    tgt_mask = (tgt != PAD).unsqueeze(-2) & (future_mask(tgt.size(-1)) == 1)
    return src_mask, tgt_mask


if __name__ == "__main__":
    q = torch.randn(2, 8, 10, 64)
    ctx, w = attention(q, q, q, future_mask(10).unsqueeze(1))
    print(ctx.shape, w[0, 0, 0])
