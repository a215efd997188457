"""A transformer in one file: the solution of `your_own_transformer`, which needs PyTorch only.

``python solution.py`` trains it on the manual of Python and lets it write.
"""

import torch
import torch.nn.functional as F
from torch import nn


def attention(q, k, v, keep):
    """Return the context: (…, i, d), (…, j, d), (…, j, d_v) -> (…, i, d_v)."""
    scores = q @ k.mT / q.shape[-1] ** 0.5  # (…, i, j)
    weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
    return weights @ v


def causal(n):
    """Return keep (i, j): True where key j is not later than query i."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def rotate(x):
    """Rotate pairs of dimensions by angles that grow with i, (b, h, i, d)."""
    n, d = x.shape[-2:]
    speeds = 10_000.0 ** (-torch.arange(0, d, 2) / d)  # (d / 2,)
    angles = torch.arange(n)[:, None] * speeds  # (i, d / 2)
    cos, sin = angles.cos(), angles.sin()
    one, other = x.chunk(2, dim=-1)
    rotated = (one * cos - other * sin, one * sin + other * cos)
    return torch.cat(rotated, dim=-1)


class MultiHead(nn.Module):
    """Causal attention with n_heads heads and RoPE, (b, i, e) -> (b, i, e)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, n, e = x.shape
        split = (b, n, self.n_heads, e // self.n_heads)
        q = self.W_q(x).view(split).transpose(1, 2)  # (b, h, i, d)
        k = self.W_k(x).view(split).transpose(1, 2)
        v = self.W_v(x).view(split).transpose(1, 2)
        context = attention(rotate(q), rotate(k), v, causal(n))
        return self.W_o(context.transpose(1, 2).reshape(b, n, e))


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to x, (b, i, e)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.norm_1 = nn.LayerNorm(d_model)
        self.attention = MultiHead(d_model, n_heads)
        self.norm_2 = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, 4 * d_model),
            nn.GELU(),
            nn.Linear(4 * d_model, d_model))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


class Model(nn.Module):
    """A decoder-only transformer, tokens (b, i) -> logits (b, i, n_tokens)."""

    context = 128

    def __init__(self, n_tokens, d_model, n_heads, n_layers):
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_model)
        self.blocks = nn.ModuleList()
        for _ in range(n_layers):
            self.blocks.append(Block(d_model, n_heads))
        self.norm = nn.LayerNorm(d_model)
        self.unembedding = nn.Linear(d_model, n_tokens)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.unembedding(self.norm(x))


def train(model, tokens, steps):
    """Train the model on random pieces of a text, tokens (n,)."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    length = model.context + 1
    for _ in range(steps):
        starts = torch.randint(len(tokens) - length + 1, (16, 1))
        pieces = tokens[starts + torch.arange(length)]  # (b, length)
        logits = model(pieces[:, :-1])
        targets = pieces[:, 1:]
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@torch.no_grad()
def write(model, tokens, n, temperature=1.0):
    """Append n tokens, (b, i) -> (b, i + n); temperature 0: the likeliest."""
    for _ in range(n):
        logits = model(tokens[:, -model.context:])[:, -1]  # (b, n_tokens)
        if temperature == 0:
            new = logits.argmax(dim=-1, keepdim=True)
        else:
            chances = (logits / temperature).softmax(dim=-1)
            new = torch.multinomial(chances, 1)
        tokens = torch.cat((tokens, new), dim=1)
    return tokens


if __name__ == "__main__":
    from pydoc_data.topics import topics
    text = "\n\n".join(topics.values())
    letters = sorted(set(text))
    tokens = torch.tensor([letters.index(letter) for letter in text])
    model = Model(len(letters), d_model=64, n_heads=4, n_layers=2)
    train(model, tokens, steps=300)
    start = torch.tensor([[letters.index(letter) for letter in "The "]])
    written = write(model, start, 200, temperature=0.7)
    print("".join(letters[token] for token in written[0]))
