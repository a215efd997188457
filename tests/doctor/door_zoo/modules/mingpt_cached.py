"""
A small GPT, minGPT flavour. The attention can be fed one token at a time:
pass the pair that the previous call returned as `layer_past`.
"""
import logging
import math

import torch
import torch.nn as nn
from torch.nn import functional as F

logger = logging.getLogger(__name__)


class GPTConfig:
    # shared by all sizes
    embd_pdrop = 0.1
    resid_pdrop = 0.1
    attn_pdrop = 0.1

    def __init__(self, vocab_size, block_size, **kwargs):
        self.vocab_size = vocab_size
        self.block_size = block_size
        for name, value in kwargs.items():
            setattr(self, name, value)


class GPT1Config(GPTConfig):
    n_layer = 12
    n_head = 12
    n_embd = 768


class PastSelfAttention(nn.Module):

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.key = nn.Linear(config.n_embd, config.n_embd)
        self.query = nn.Linear(config.n_embd, config.n_embd)
        self.value = nn.Linear(config.n_embd, config.n_embd)
        self.attn_drop = nn.Dropout(config.attn_pdrop)
        self.resid_drop = nn.Dropout(config.resid_pdrop)
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        n = config.block_size
        self.register_buffer("mask", torch.ones(1, 1, n, n).tril())
        self.n_head = config.n_head

    def forward(self, x, layer_past=None):
        B, T, C = x.size()
        shape = (B, T, self.n_head, C // self.n_head)
        k = self.key(x).view(shape).transpose(1, 2)
        q = self.query(x).view(shape).transpose(1, 2)
        v = self.value(x).view(shape).transpose(1, 2)

        if layer_past is not None:
            past_k, past_v = layer_past
            k = torch.cat([past_k, k], dim=2)
            v = torch.cat([past_v, v], dim=2)
        present = (k, v)

        S = k.size(2)
        att = q @ k.transpose(-2, -1) / math.sqrt(shape[-1])
        # the T new rows are the last ones of the S x S triangle
        att = att.masked_fill(self.mask[:, :, S - T:S, :S] == 0, float('-inf'))
        att = self.attn_drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.resid_drop(self.proj(y)), present


def count_parameters(model):
    n = sum(p.numel() for p in model.parameters())
    logger.info("%.2fM parameters", n / 1e6)
    return n
