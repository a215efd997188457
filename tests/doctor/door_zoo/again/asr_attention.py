#!/usr/bin/env python3
# -*- coding: utf-8 -*-
"""Attention of the hybrid CTC/attention recogniser."""
import math
from typing import Optional, Tuple

import numpy
import torch
from torch import nn

MIN_FLOAT = float(numpy.finfo(numpy.float32).min)


def make_pad_mask(lengths: torch.Tensor, max_len: int = 0) -> torch.Tensor:
    max_len = max_len or int(lengths.max())
    return torch.arange(max_len, device=lengths.device)[None] >= lengths[:, None]


class MultiHeadedAttention(nn.Module):
    """Multi-head attention layer.

    Args:
        n_head (int): the number of heads.
        n_feat (int): the number of features.
        dropout_rate (float): dropout rate.
    """

    def __init__(self, n_head, n_feat, dropout_rate):
        super(MultiHeadedAttention, self).__init__()
        assert n_feat % n_head == 0
        self.d_k = n_feat // n_head
        self.h = n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.attn = None
        self.dropout = nn.Dropout(p=dropout_rate)

    def forward_qkv(self, query, key, value) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        n_batch = query.size(0)
        q = self.linear_q(query).view(n_batch, -1, self.h, self.d_k)
        k = self.linear_k(key).view(n_batch, -1, self.h, self.d_k)
        v = self.linear_v(value).view(n_batch, -1, self.h, self.d_k)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    def forward_attention(self, value, scores, mask):
        n_batch = value.size(0)
        if mask is not None:
            mask = mask.unsqueeze(1).eq(0)  # (batch, 1, *, time2)
            scores = scores.masked_fill(mask, MIN_FLOAT)
            self.attn = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)
        else:
            self.attn = torch.softmax(scores, dim=-1)
        x = torch.matmul(self.dropout(self.attn), value)
        x = x.transpose(1, 2).contiguous().view(n_batch, -1, self.h * self.d_k)
        return self.linear_out(x)

    def forward(self, query, key, value, mask):
        """
        Args:
            query (torch.Tensor): (#batch, time1, size).
            key, value (torch.Tensor): (#batch, time2, size).
            mask (torch.Tensor): (#batch, 1, time2) or (#batch, time1, time2).
        """
        q, k, v = self.forward_qkv(query, key, value)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        return self.forward_attention(v, scores, mask)


class ConvolutionModule(nn.Module):
    def __init__(self, channels, kernel_size=15):
        super().__init__()
        self.pointwise1 = nn.Conv1d(channels, 2 * channels, 1)
        self.depthwise = nn.Conv1d(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)
        self.norm = nn.BatchNorm1d(channels)
        self.pointwise2 = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        x = nn.functional.glu(self.pointwise1(x.transpose(1, 2)), dim=1)
        return self.pointwise2(nn.functional.silu(self.norm(self.depthwise(x)))).transpose(1, 2)
