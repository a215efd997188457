import pandas as pd
import torch
from torch import nn


class TimestepAttention(nn.Module):
    """nn.MultiheadAttention, batch first, with the padding mask our loader makes."""

    def __init__(self, embed_dim, num_heads, dropout=0.2):
        super().__init__()
        self.mha = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout,
                                         batch_first=True)

    def forward(self, x, pad_mask=None):
        # pad_mask: (batch, steps), True where the step is padding
        out, _ = self.mha(x, x, x, key_padding_mask=pad_mask, need_weights=False)
        return out


class AttentionBlock(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.2):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout)
        self.norm = nn.LayerNorm(embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, src_mask=None, src_key_padding_mask=None):
        # src comes in as (batch, steps, features), the attention wants steps first
        x = src.permute(1, 0, 2)
        x, weights = self.attention(x, x, x, attn_mask=src_mask,
                                    key_padding_mask=src_key_padding_mask)
        x = x.permute(1, 0, 2)
        return self.norm(src + self.dropout(x)), weights


class StudentModel(nn.Module):
    def __init__(self, n_skill, max_seq=100, embed_dim=128):
        super().__init__()
        self.embedding = nn.Embedding(2 * n_skill + 1, embed_dim)
        self.pos_embedding = nn.Embedding(max_seq, embed_dim)
        self.block = AttentionBlock(embed_dim, 8)
        self.pred = nn.Linear(embed_dim, 1)

    def forward(self, ids):
        pos = torch.arange(ids.size(1), device=ids.device)
        x = self.embedding(ids) + self.pos_embedding(pos)
        future = torch.ones(ids.size(1), ids.size(1), device=ids.device).triu(1).bool()
        x, _ = self.block(x, src_mask=future)
        return self.pred(x).squeeze(-1)


def load_groups(path="train.csv"):
    df = pd.read_csv(path, usecols=["user_id", "content_id", "answered_correctly"])
    return df.groupby("user_id").agg(list)
