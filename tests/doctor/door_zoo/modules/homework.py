# CS course, assignment 3, part 2
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttentionHW(nn.Module):
    """
    Inputs:
      - query: (N, S, E), key: (N, T, E), value: (N, T, E)
      - attn_mask: (S, T) of ones and zeros; where it has a zero, the row must not look at
        the column
    """

    def __init__(self, embed_dim, num_heads, dropout=0.1):
        super().__init__()
        assert embed_dim % num_heads == 0

        self.key = nn.Linear(embed_dim, embed_dim)
        self.query = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.attn_drop = nn.Dropout(dropout)
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads

    def forward(self, query, key, value, attn_mask=None):
        (N, S, E), T = query.shape, value.shape[1]
        H, D = self.num_heads, self.head_dim
        Q = self.query(query).view(N, S, H, D).permute(0, 2, 1, 3)  # N H S D
        K = self.key(key).view(N, T, H, D).permute(0, 2, 3, 1)      # N H D T
        V = self.value(value).view(N, T, H, D).permute(0, 2, 1, 3)  # N H T D

        weights = F.softmax(Q @ K / math.sqrt(D), dim=-1)
        if attn_mask is not None:
            weights = weights * (attn_mask != 0)
        weights = self.attn_drop(weights)

        output = (weights @ V).permute(0, 2, 1, 3).reshape(N, S, E)
        return self.proj(output)


class PositionalEncodingHW(nn.Module):
    def __init__(self, embed_dim, dropout=0.1, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pos = torch.arange(max_len).unsqueeze(1)
        freq = torch.exp(torch.arange(0, embed_dim, 2) * (-math.log(10000) / embed_dim))
        pe = torch.zeros(1, max_len, embed_dim)
        pe[0, :, 0::2] = torch.sin(pos * freq)
        pe[0, :, 1::2] = torch.cos(pos * freq)
        self.register_buffer('pe', pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, :x.shape[1]])


if __name__ == '__main__':
    torch.manual_seed(231)
    attn = MultiHeadAttentionHW(embed_dim=12, num_heads=3)
    data = torch.randn(1, 4, 12)
    print(attn(data, data, data, torch.tril(torch.ones(4, 4))))
