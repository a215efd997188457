import math

import torch
from torch import nn


def sequence_mask(X, valid_len, value=0.0):
    """Rows of X keep their first valid_len entries; the others become value."""
    cols = torch.arange(X.size(1), device=X.device)
    return torch.where(cols[None, :] < valid_len[:, None], X, torch.full_like(X, value))


def masked_softmax(X, valid_lens):
    # X: (batch * heads, queries, keys); valid_lens: None, (batch * heads,) or one per query
    if valid_lens is not None:
        if valid_lens.dim() == 1:
            valid_lens = valid_lens[:, None].expand(-1, X.size(1))
        rows = sequence_mask(X.flatten(0, 1), valid_lens.flatten(), value=-1e6)
        X = rows.view_as(X)
    return X.softmax(dim=-1)


class DotProductAttention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        d = queries.shape[-1]
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(d)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


class LensMultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, dropout=0.0, bias=False, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention = DotProductAttention(dropout)
        self.W_q = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_k = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_v = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_o = nn.LazyLinear(num_hiddens, bias=bias)

    def transpose_qkv(self, X):
        # (b, n, hiddens) -> (b * heads, n, hiddens / heads)
        return X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2).flatten(0, 1)

    def transpose_output(self, X):
        return X.unflatten(0, (-1, self.num_heads)).transpose(1, 2).flatten(2)

    def forward(self, queries, keys, values, valid_lens):
        queries = self.transpose_qkv(self.W_q(queries))
        keys = self.transpose_qkv(self.W_k(keys))
        values = self.transpose_qkv(self.W_v(values))

        if valid_lens is not None:
            valid_lens = torch.as_tensor(valid_lens, device=queries.device)
            valid_lens = torch.repeat_interleave(valid_lens, self.num_heads, dim=0)

        context = self.attention(queries, keys, values, valid_lens)
        return self.W_o(self.transpose_output(context))


if __name__ == "__main__":
    layer = LensMultiHeadAttention(100, 5, 0.5)
    X, Y = torch.ones(2, 4, 100), torch.ones(2, 6, 100)
    print(layer(X, Y, Y, [3, 2]).shape)
