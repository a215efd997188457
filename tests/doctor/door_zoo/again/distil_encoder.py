"""A small distilled encoder; the weights follow the teacher's naming."""
import copy
import logging
import math
from typing import Optional, Tuple

import numpy as np
import torch
from torch import nn

from .configuration_distil import DistilConfig
from .activations import get_activation

logger = logging.getLogger(__name__)


def create_sinusoidal_embeddings(n_pos: int, dim: int, out: torch.Tensor):
    position_enc = np.array([[pos / np.power(10000, 2 * (j // 2) / dim) for j in range(dim)] for pos in range(n_pos)])
    out.requires_grad = False
    out[:, 0::2] = torch.FloatTensor(np.sin(position_enc[:, 0::2]))
    out[:, 1::2] = torch.FloatTensor(np.cos(position_enc[:, 1::2]))


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, config: "DistilConfig"):
        super().__init__()
        self.n_heads = config.n_heads
        self.dim = config.dim
        self.dropout = nn.Dropout(p=config.attention_dropout)
        if self.dim % self.n_heads != 0:
            raise ValueError(f"self.n_heads: {self.n_heads} must divide self.dim: {self.dim} evenly")
        self.q_lin = nn.Linear(config.dim, config.dim)
        self.k_lin = nn.Linear(config.dim, config.dim)
        self.v_lin = nn.Linear(config.dim, config.dim)
        self.out_lin = nn.Linear(config.dim, config.dim)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Optional[torch.Tensor] = None,
        output_attentions: bool = False,
    ) -> Tuple[torch.Tensor, ...]:
        """
        query, key, value: (bs, seq_length, dim); mask: (bs, seq_length), 1 for a word and 0 for padding
        """
        bs, q_length, dim = query.size()
        k_length = key.size(1)
        per_head = self.dim // self.n_heads

        def shape(x):
            return x.view(bs, -1, self.n_heads, per_head).transpose(1, 2)

        def unshape(x):
            return x.transpose(1, 2).contiguous().view(bs, -1, self.n_heads * per_head)

        q = shape(self.q_lin(query))
        k = shape(self.k_lin(key))
        v = shape(self.v_lin(value))

        q = q / math.sqrt(per_head)
        scores = torch.matmul(q, k.transpose(2, 3))
        if mask is not None:
            gone = (mask == 0).view(bs, 1, 1, k_length).expand_as(scores)
            scores = scores.masked_fill(gone, torch.finfo(scores.dtype).min)

        weights = self.dropout(nn.functional.softmax(scores, dim=-1))
        context = self.out_lin(unshape(torch.matmul(weights, v)))
        return (context, weights) if output_attentions else (context,)


class FFN(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.lin1 = nn.Linear(config.dim, config.hidden_dim)
        self.lin2 = nn.Linear(config.hidden_dim, config.dim)
        self.act = get_activation(config.activation)

    def forward(self, x):
        return self.lin2(self.act(self.lin1(x)))


class TransformerBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = MultiHeadSelfAttention(config)
        self.sa_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)
        self.ffn = FFN(config)
        self.output_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)

    def forward(self, x, attn_mask=None):
        sa = self.attention(x, x, x, mask=attn_mask)[0]
        x = self.sa_layer_norm(sa + x)
        return self.output_layer_norm(self.ffn(x) + x)
