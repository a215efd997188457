"""Loops over heads and layers, sinusoids, one function for the softmax, plain SwiGLU."""

import torch
from torch import nn


def softmax(scores):
    exps = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    return exps / exps.sum(dim=-1, keepdim=True)


def attention(q, k, v, keep):
    scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(keep == 0, -1e30)
    return torch.matmul(softmax(scores), v)


def causal(n):
    keep = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        keep[i, :i + 1] = True
    return keep


class Head(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.query = nn.Linear(d_model, d_head, bias=False)
        self.key = nn.Linear(d_model, d_head, bias=False)
        self.value = nn.Linear(d_model, d_head, bias=False)

    def forward(self, x):
        return attention(self.query(x), self.key(x), self.value(x), causal(x.shape[1]))


class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = nn.ModuleList([Head(d_model, d_model // n_heads) for _ in range(n_heads)])
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.mix(torch.cat([head(x) for head in self.heads], dim=2))


class FeedForward(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.gate = nn.Linear(d_model, 2 * d_model)
        self.up = nn.Linear(d_model, 2 * d_model)
        self.down = nn.Linear(2 * d_model, d_model)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.layers = nn.ModuleList([MultiHead(d_model, n_heads), FeedForward(d_model)])
        self.norms = nn.ModuleList([nn.LayerNorm(d_model), nn.LayerNorm(d_model)])

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + layer(norm(x))
        return x


def sinusoids(n, d):
    rates = 100.0 ** (-torch.arange(0, d, 2) / d)
    angles = torch.arange(n)[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)


class Model(nn.Module):
    def __init__(self, n_tokens, d_model, n_heads, n_layers):
        super().__init__()
        self.context = 128
        self.d_model = d_model
        self.embed = nn.Embedding(n_tokens, d_model)
        self.blocks = nn.ModuleList()
        for _ in range(n_layers):
            self.blocks.append(Block(d_model, n_heads))
        self.last = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, n_tokens))

    def forward(self, tokens):
        x = self.embed(tokens) + sinusoids(tokens.shape[1], self.d_model)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def train(model, tokens, steps):
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    n = model.context
    for step in range(steps):
        rows = []
        for _ in range(16):
            start = int(torch.randint(len(tokens) - n, ()))
            rows.append(tokens[start:start + n + 1])
        batch = torch.stack(rows)
        logits = model(batch[:, :n])
        log_p = logits - logits.logsumexp(dim=2, keepdim=True)
        loss = -log_p.gather(2, batch[:, 1:, None]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 50 == 0:
            print(step, loss.item())


def write(model, tokens, n, temperature=1.0):
    for _ in range(n):
        with torch.no_grad():
            logits = model(tokens[:, -model.context:])[:, -1]
        if temperature == 0:
            new = logits.argmax(dim=1)
        else:
            new = torch.multinomial(softmax(logits / temperature), 1)[:, 0]
        tokens = torch.cat([tokens, new.unsqueeze(1)], dim=1)
    return tokens
