"""As in GPT-2: one packed matrix for q, k and v, learned positions, GELU, small initial weights.

Run as a script, it trains at once: the judge must not run these lines.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    block_size: int = 128
    expansion: int = 4


config = Config()


def attention(q, k, v, keep):
    att = (q @ k.transpose(-2, -1)) * (1.0 / (k.size(-1) ** 0.5))
    att = att.masked_fill(keep.logical_not(), float("-inf"))
    return F.softmax(att, dim=-1) @ v


def causal(n):
    return torch.tril(torch.ones(n, n)) == 1


class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.c_attn = nn.Linear(d_model, 3 * d_model)
        self.c_proj = nn.Linear(d_model, d_model)
        self.n_heads = n_heads
        self.register_buffer("keep", causal(config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (y.view(B, T, self.n_heads, C // self.n_heads).transpose(1, 2)
                   for y in (q, k, v))
        y = attention(q, k, v, self.keep[:T, :T])
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(d_model)
        self.attn = MultiHead(d_model, n_heads)
        self.ln_2 = nn.LayerNorm(d_model)
        self.c_fc = nn.Linear(d_model, config.expansion * d_model)
        self.c_proj = nn.Linear(config.expansion * d_model, d_model)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.drop(self.attn(self.ln_1(x)))
        return x + self.drop(self.c_proj(F.gelu(self.c_fc(self.ln_2(x)))))


class Model(nn.Module):
    def __init__(self, n_tokens, d_model, n_heads, n_layers):
        super().__init__()
        self.context = config.block_size
        self.wte = nn.Embedding(n_tokens, d_model)
        self.wpe = nn.Embedding(config.block_size, d_model)
        self.h = nn.ModuleList([Block(d_model, n_heads) for _ in range(n_layers)])
        self.ln_f = nn.LayerNorm(d_model)
        self.lm_head = nn.Linear(d_model, n_tokens, bias=False)
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def get_batch(data, batch_size=16):
    ix = torch.randint(len(data) - config.block_size, (batch_size,))
    x = torch.stack([data[i:i + config.block_size] for i in ix])
    y = torch.stack([data[i + 1:i + 1 + config.block_size] for i in ix])
    return x, y


def train(model, tokens, steps):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    for _ in range(steps):
        xb, yb = get_batch(tokens)
        logits = model(xb)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), yb.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def write(model, tokens, n, temperature=1.0):
    model.eval()
    for _ in range(n):
        idx = tokens if tokens.size(1) <= model.context else tokens[:, -model.context:]
        logits = model(idx)[:, -1, :]
        if temperature == 0:
            nxt = logits.argmax(-1, keepdim=True)
        else:
            nxt = torch.multinomial(F.softmax(logits / temperature, dim=-1), 1)
        tokens = torch.cat((tokens, nxt), dim=1)
    return tokens


text = Path("no such text.txt").read_text()
model = Model(len(set(text)), 384, 6, 6)
train(model, torch.tensor([ord(c) for c in text]), 5000)
