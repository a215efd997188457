import math

import pandas as pd
import seaborn as sns
import torch
from torch import nn


def sequence_mask(X, valid_len, value=0.0):
    """X: (rows, steps); valid_len: (rows,)"""
    cols = torch.arange(X.shape[1], device=X.device, dtype=torch.float32)
    keep = cols.unsqueeze(0) < valid_len.unsqueeze(1)
    return torch.where(keep, X, torch.full_like(X, value))


def masked_softmax(X, valid_lens=None):
    """Softmax on the last axis, only over the valid entries of each row."""
    if valid_lens is None:
        return torch.softmax(X, dim=-1)
    b, rows, steps = X.shape
    if valid_lens.dim() == 1:
        per_row = valid_lens.repeat_interleave(rows)
    else:
        per_row = valid_lens.flatten()
    X = sequence_mask(X.reshape(b * rows, steps), per_row, value=-1e6)
    return torch.softmax(X.reshape(b, rows, steps), dim=-1)


class DotProductAttention(nn.Module):
    """Scaled dot product attention with lengths in place of masks."""

    def __init__(self, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.dropout = nn.Dropout(dropout)

    # queries (b, n_q, d), keys (b, n_k, d), values (b, n_k, d_v)
    # valid_lens: how many keys count, per example (b,) or per query (b, n_q)
    def forward(self, queries, keys, values, valid_lens=None):
        d = queries.shape[-1]
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(d)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


def show_heatmap(weights, title="attention"):
    frame = pd.DataFrame(weights.detach().numpy())
    ax = sns.heatmap(frame, cmap="Reds")
    ax.set_title(title)
    return ax


if __name__ == "__main__":
    queries, keys = torch.randn(3, 4, 8), torch.randn(3, 6, 8)
    values = torch.randn(3, 6, 5)
    attention = DotProductAttention(dropout=0.2).eval()
    print(attention(queries, keys, values, torch.tensor([6, 4, 1])).shape)
    show_heatmap(attention.attention_weights[:, 0])
