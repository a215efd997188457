"""Einsum everywhere, RoPE on pairs, RMSNorm, squared ReLU, no biases, one attention for all."""

import math

import torch
from torch import einsum, nn
from torch.nn import functional

CONTEXT = 256


def attention(q, k, v, keep):
    scores = einsum("...id,...jd->...ij", q, k) / math.sqrt(k.size(-1))
    scores = torch.where(keep, scores, torch.finfo(scores.dtype).min)
    return einsum("...ij,...jd->...id", torch.softmax(scores, -1), v)


def causal(n):
    i = torch.arange(n)
    return i[:, None] >= i[None, :]


def rope(x, base=10000):
    n, d = x.size(-2), x.size(-1)
    rates = base ** (-torch.arange(0, d, 2) / d)
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2))
    angles = torch.outer(torch.arange(n).float(), rates)
    z = z * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(z).flatten(-2).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.g * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        d = d_model // n_heads

        def matrix(*shape):
            return nn.Parameter(torch.randn(*shape) / math.sqrt(d_model))

        self.q, self.k, self.v = (matrix(n_heads, d_model, d) for _ in range(3))
        self.o = matrix(n_heads, d, d_model)

    def forward(self, x):
        q, k, v = (einsum("bne,hed->bhnd", x, w) for w in (self.q, self.k, self.v))
        mixed = attention(rope(q), rope(k), v, causal(x.size(1)))
        return einsum("bhnd,hde->bne", mixed, self.o)


class Block(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n1, self.n2 = RMSNorm(d_model), RMSNorm(d_model)
        self.mix = MultiHead(d_model, n_heads)
        self.up = nn.Parameter(torch.randn(d_model, 4 * d_model) / math.sqrt(d_model))
        self.down = nn.Parameter(torch.zeros(4 * d_model, d_model))

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        return x + functional.relu(self.n2(x) @ self.up).square() @ self.down


class Model(nn.Module):
    def __init__(self, n_tokens, d_model, n_heads, n_layers):
        super().__init__()
        self.context = CONTEXT
        self.table = nn.Parameter(torch.randn(n_tokens, d_model) * 0.02)
        self.blocks = nn.Sequential(*(Block(d_model, n_heads) for _ in range(n_layers)))
        self.norm = RMSNorm(d_model)

    def forward(self, tokens):
        x = self.norm(self.blocks(self.table[tokens]))
        return einsum("bne,ve->bnv", x, self.table)  # tied


def train(model, tokens, steps):
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    n, batch = 96, 12
    for _ in range(steps):
        at = torch.randint(0, len(tokens) - n, (batch,))
        x = torch.stack([tokens[i:i + n] for i in at])
        y = torch.stack([tokens[i + 1:i + n + 1] for i in at])
        model.zero_grad()
        loss = functional.cross_entropy(einsum("bnv->bvn", model(x)), y)
        loss.backward()
        optimiser.step()
        schedule.step()


def write(model, tokens, n, temperature=1.0):
    model.eval()
    with torch.no_grad():
        for _ in range(n):
            last = model(tokens[:, max(0, tokens.size(1) - CONTEXT):])[:, -1, :]
            if temperature:
                p = torch.softmax(last / temperature, dim=-1)
                drawn = torch.multinomial(p, num_samples=1)
            else:
                drawn = last.max(dim=-1, keepdim=True).indices
            tokens = torch.hstack([tokens, drawn])
    return tokens
