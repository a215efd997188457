import math

import numpy as np
import torch
from torch import nn


class SkipConnection(nn.Module):
    def __init__(self, module):
        super(SkipConnection, self).__init__()
        self.module = module

    def forward(self, input):
        return input + self.module(input)


class MultiHeadAttention(nn.Module):
    def __init__(self, n_heads, input_dim, embed_dim=None, val_dim=None, key_dim=None):
        super(MultiHeadAttention, self).__init__()
        if val_dim is None:
            assert embed_dim is not None, "Provide either embed_dim or val_dim"
            val_dim = embed_dim // n_heads
        if key_dim is None:
            key_dim = val_dim
        self.n_heads = n_heads
        self.input_dim = input_dim
        self.embed_dim = embed_dim
        self.norm_factor = 1 / math.sqrt(key_dim)

        self.W_query = nn.Parameter(torch.Tensor(n_heads, input_dim, key_dim))
        self.W_key = nn.Parameter(torch.Tensor(n_heads, input_dim, key_dim))
        self.W_val = nn.Parameter(torch.Tensor(n_heads, input_dim, val_dim))
        if embed_dim is not None:
            self.W_out = nn.Parameter(torch.Tensor(n_heads, val_dim, embed_dim))
        self.init_parameters()

    def init_parameters(self):
        for param in self.parameters():
            stdv = 1.0 / math.sqrt(param.size(-1))
            param.data.uniform_(-stdv, stdv)

    def forward(self, q, h=None, mask=None):
        """
        :param q: queries (batch_size, n_query, input_dim)
        :param h: data (batch_size, graph_size, input_dim)
        :param mask: (batch_size, n_query, graph_size), 1 where attention is not possible
        """
        if h is None:
            h = q
        Q = torch.einsum("bni,hik->hbnk", q, self.W_query)
        K = torch.einsum("bgi,hik->hbgk", h, self.W_key)
        V = torch.einsum("bgi,hiv->hbgv", h, self.W_val)

        compatibility = self.norm_factor * torch.matmul(Q, K.transpose(2, 3))
        if mask is not None:
            compatibility[mask.bool().expand_as(compatibility)] = -np.inf
        attn = torch.softmax(compatibility, dim=-1)
        if mask is not None:
            attn = attn.masked_fill(mask.bool().expand_as(attn), 0)

        heads = torch.matmul(attn, V)
        return torch.einsum("hbnv,hve->bne", heads, self.W_out)


class Normalization(nn.Module):
    def __init__(self, embed_dim):
        super(Normalization, self).__init__()
        self.normalizer = nn.BatchNorm1d(embed_dim, affine=True)

    def forward(self, input):
        return self.normalizer(input.view(-1, input.size(-1))).view(*input.size())


class GraphAttentionEncoder(nn.Module):
    def __init__(self, n_heads, embed_dim, n_layers, node_dim=2):
        super(GraphAttentionEncoder, self).__init__()
        self.init_embed = nn.Linear(node_dim, embed_dim)
        self.layers = nn.Sequential(*(
            nn.Sequential(
                SkipConnection(MultiHeadAttention(n_heads, input_dim=embed_dim, embed_dim=embed_dim)),
                Normalization(embed_dim),
            )
            for _ in range(n_layers)
        ))

    def forward(self, x):
        h = self.layers(self.init_embed(x))
        return h, h.mean(dim=1)
