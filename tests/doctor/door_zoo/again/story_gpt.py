import json
import logging
import math

import regex as re
import torch
from torch import nn
from torch.nn import functional as F

logger = logging.getLogger(__name__)


class GPT2Config:
    def __init__(self, vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12, attn_pdrop=0.1,
                 resid_pdrop=0.1, layer_norm_epsilon=1e-5):
        self.vocab_size = vocab_size
        self.n_positions = n_positions
        self.n_embd = n_embd
        self.n_layer = n_layer
        self.n_head = n_head
        self.attn_pdrop = attn_pdrop
        self.resid_pdrop = resid_pdrop
        self.layer_norm_epsilon = layer_norm_epsilon


class Conv1D(nn.Module):
    """The projection of the TF checkpoint: weight (nx, nf)."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.empty(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        size_out = x.size()[:-1] + (self.nf,)
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*size_out)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        n_state = config.n_embd
        assert n_state % config.n_head == 0
        mask = torch.tril(torch.ones(config.n_positions, config.n_positions, dtype=torch.bool))
        self.register_buffer("bias", mask.view(1, 1, config.n_positions, config.n_positions))
        self.n_head = config.n_head
        self.split_size = n_state
        self.c_attn = Conv1D(n_state * 3, n_state)
        self.c_proj = Conv1D(n_state, n_state)
        self.attn_dropout = nn.Dropout(config.attn_pdrop)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def _attn(self, q, k, v):
        w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
        nd, ns = w.size(-2), w.size(-1)
        b = self.bias[:, :, :nd, :ns]
        w = torch.where(b, w, torch.tensor(-1e4, dtype=w.dtype, device=w.device))
        w = self.attn_dropout(F.softmax(w, dim=-1))
        return torch.matmul(w, v)

    def split_heads(self, x):
        return x.view(*x.size()[:-1], self.n_head, x.size(-1) // self.n_head).permute(0, 2, 1, 3)

    def merge_heads(self, x):
        x = x.permute(0, 2, 1, 3).contiguous()
        return x.view(*x.size()[:-2], x.size(-2) * x.size(-1))

    def forward(self, x, layer_past=None):
        query, key, value = self.c_attn(x).split(self.split_size, dim=2)
        query, key, value = self.split_heads(query), self.split_heads(key), self.split_heads(value)
        if layer_past is not None:
            past_key, past_value = layer_past
            key = torch.cat((past_key, key), dim=-2)
            value = torch.cat((past_value, value), dim=-2)
        present = (key, value)
        a = self.merge_heads(self._attn(query, key, value))
        return self.resid_dropout(self.c_proj(a)), present


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.c_fc, self.c_out = Conv1D(4 * config.n_embd, config.n_embd), Conv1D(config.n_embd, 4 * config.n_embd)

    def forward(self, x, layer_past=None):
        a, present = self.attn(self.ln_1(x), layer_past)
        x = x + a
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)))), present


class Encoder:
    pat = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

    def __init__(self, vocab_file):
        with open(vocab_file) as f:
            self.encoder = json.load(f)

    def encode(self, text):
        return [self.encoder[t] for t in re.findall(self.pat, text) if t in self.encoder]
