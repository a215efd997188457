#!/usr/bin/env python3
"""Attention of the acoustic encoder."""
import torch
from torch import nn

MIN_VALUE = float(torch.finfo(torch.float32).min)


class AcousticMultiHead(nn.Module):
    """Attention over acoustic frames.

    :param int n_head: how many heads
    :param int n_feat: width of a frame
    :param float dropout_rate: for the weights
    """

    def __init__(self, n_head, n_feat, dropout_rate):
        super(AcousticMultiHead, self).__init__()
        assert n_feat % n_head == 0
        self.d_k = n_feat // n_head
        self.h = n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.attn = None
        self.dropout = nn.Dropout(p=dropout_rate)

    def forward_qkv(self, query, key, value):
        pairs = ((self.linear_q, query), (self.linear_k, key), (self.linear_v, value))
        return [lin(x).view(x.size(0), x.size(1), self.h, self.d_k).transpose(1, 2)
                for lin, x in pairs]

    def forward_attention(self, value, scores, mask):
        if mask is not None:
            # mask: (batch, 1 or frames, frames), 1 on real frames
            scores = scores.masked_fill(mask[:, None] == 0, MIN_VALUE)
        self.attn = scores.softmax(dim=-1)
        x = self.dropout(self.attn) @ value
        return self.linear_out(x.transpose(1, 2).flatten(2))

    def forward(self, query, key, value, mask=None):
        q, k, v = self.forward_qkv(query, key, value)
        scores = torch.matmul(q, k.transpose(-2, -1))
        return self.forward_attention(v, scores, mask)


class ConvSubsampling(nn.Module):
    def __init__(self, idim, odim):
        super(ConvSubsampling, self).__init__()
        self.conv = nn.Conv1d(idim, odim, 3, stride=2)

    def forward(self, x, x_mask):
        x = torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return x, None if x_mask is None else x_mask[:, :, :-2:2]
