# Time x Batch x Channel everywhere in this repository.
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import Parameter


class MultiheadAttention(nn.Module):
    """Multi-headed attention, inputs are (time, batch, channel)."""

    def __init__(self, embed_dim, num_heads, attn_dropout=0., bias=True):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.attn_dropout = attn_dropout
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim
        self.scaling = self.head_dim ** -0.5

        self.in_proj_weight = Parameter(torch.empty(3 * embed_dim, embed_dim))
        if bias:
            self.in_proj_bias = Parameter(torch.zeros(3 * embed_dim))
        else:
            self.register_parameter('in_proj_bias', None)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def _in_proj(self, x, part):
        rows = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        return F.linear(x, self.in_proj_weight[rows], bias)

    def _fold(self, x, bsz):
        x = x.contiguous().view(-1, bsz * self.num_heads, self.head_dim)
        return x.transpose(0, 1)

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        """key_padding_mask: (batch, src_len), True is hidden.
        attn_mask: (tgt_len, src_len), added to the scores."""
        tgt_len, bsz, _ = query.size()
        src_len = key.size(0)

        q = self._fold(self._in_proj(query, 0) * self.scaling, bsz)
        k = self._fold(self._in_proj(key, 1), bsz)
        v = self._fold(self._in_proj(value, 2), bsz)

        scores = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            scores = scores + attn_mask.unsqueeze(0)
        if key_padding_mask is not None:
            scores = scores.view(bsz, self.num_heads, tgt_len, src_len)
            scores = scores.masked_fill(key_padding_mask[:, None, None].bool(), -float('inf'))
            scores = scores.view(bsz * self.num_heads, tgt_len, src_len)

        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        weights = F.dropout(weights, p=self.attn_dropout, training=self.training)

        attn = torch.bmm(weights, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, self.embed_dim)
        attn = self.out_proj(attn)

        weights = weights.view(bsz, self.num_heads, tgt_len, src_len).mean(dim=1)
        return attn, weights


def fill_with_neg_inf(t):
    return t.float().fill_(float('-inf')).type_as(t)


def buffered_future_mask(tensor):
    dim = tensor.size(0)
    return torch.triu(fill_with_neg_inf(torch.ones(dim, dim)), 1).to(tensor)
