"""A character model: attention with RoPE, blocks, training, writing, saving.

It needs PyTorch and NumPy only. ``save`` writes a model, my_model.npz, beside
a copy of this file, my_model.py. There, ``python my_model.py "The for"`` goes
on writing. The course *One Equation, Many Programs* teaches each part, in
`multi_head_layer`, `positions`, `the_block` and `language_model`.
"""

import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class CharacterModel(nn.Module):
    """Any layers between an embedding and an unembedding, (b, i)."""

    def __init__(self, n_tokens, d_model, *layers):
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_model)
        self.layers = nn.Sequential(*layers)
        self.unembedding = nn.Linear(d_model, n_tokens)

    def forward(self, tokens):
        """Return the logits of each next character, (b, i, n_tokens)."""
        x = self.embedding(tokens)  # (b, i, e)
        return self.unembedding(self.layers(x))


def next_token_loss(model, tokens):
    """Return the mean loss, in nats, of all tokens (b, n) but the first."""
    logits = model(tokens[:, :-1])  # (b, n - 1, n_tokens)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


@torch.no_grad()
def bits(model, passages):
    """Return the mean loss of passages (b, n), in bits per character."""
    losses = [next_token_loss(model, part) * len(part)
              for part in passages.split(64)]
    return sum(losses).item() / len(passages) / math.log(2)


def learn(model, tokens, steps=600, batch=16, rate=0.01, seed=0):
    """Train on pieces of a text, integers (n,); return the bits of each step.

    A piece has 129 characters. The learning rate of AdamW falls from ``rate``
    to 0 in a line.
    """
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters())
    history = []
    for step in range(steps):
        starts = torch.randint(len(tokens) - 128, (batch, 1),
                               generator=generator)
        pieces = tokens[starts + torch.arange(129)]  # (b, 129)
        loss = next_token_loss(model, pieces)
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = rate * (1 - step / steps)
        optimiser.step()
        history.append(loss.item() / math.log(2))
    return history


class Attention(nn.Module):
    """Causal multi-head attention without positions, (b, i, e)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def split(self, x):
        """Return x split into heads, (b, i, e) -> (b, h, i, d)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def project(self, x):
        """Return q, k and v, (b, h, i, d) each."""
        linears = (self.W_q, self.W_k, self.W_v)
        return [self.split(linear(x)) for linear in linears]

    def forward(self, x):
        """Return the output of each position, from the positions up to it."""
        q, k, v = self.project(x)
        q = q / math.sqrt(q.shape[-1])  # less work than dividing all scores
        scores = q @ k.transpose(-2, -1)  # (b, h, i, j)
        keep = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()  # (i, j)
        weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)  # merged: (b, i, e)
        return self.W_o(context)


def rotary(positions, d, base=10_000):
    """Return cos and sin of RoPE's angles, (…, i) -> (…, i, d / 2) each."""
    n = torch.arange(d // 2, dtype=positions.dtype)  # (d / 2,)
    angle = positions[..., None] * base ** (-n / len(n))  # (…, i, d / 2)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    """Rotate dimensions n and n + d / 2 of x (…, i, d) by these angles."""
    a, b = x.chunk(2, dim=-1)  # two halves, (…, i, d / 2) each
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class RotaryAttention(Attention):
    """Attention with RoPE: q and k are rotated, v is not."""

    start = 0  # the position of the first token

    def project(self, x):
        """Return q, k and v, (b, h, i, d) each, q and k rotated."""
        q, k, v = super().project(x)
        positions = self.start + torch.arange(x.shape[1], dtype=x.dtype)
        cos, sin = rotary(positions, q.shape[-1])
        return rotate(q, cos, sin), rotate(k, cos, sin), v


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to x, (b, i, e)."""

    def __init__(self, attention, d_model):
        super().__init__()
        self.attention = attention
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(),
            nn.Linear(4 * d_model, d_model))
        self.norm_1 = nn.LayerNorm(d_model)
        self.norm_2 = nn.LayerNorm(d_model)

    def forward(self, x):
        """Return x plus what both add to it."""
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


def transformer(n_tokens, d_model=64, n_heads=4, n_blocks=2):
    """Return a model of blocks with RoPE, and a norm after the last."""
    blocks = [Block(RotaryAttention(d_model, n_heads), d_model)
              for _ in range(n_blocks)]
    return CharacterModel(n_tokens, d_model, *blocks, nn.LayerNorm(d_model))


@torch.no_grad()
def write(model, vocabulary, start, length=200, temperature=0.7, seed=0):
    """Return ``start`` and ``length`` characters that the model draws.

    A lower temperature prefers likely characters more. The model reads the
    last 128 characters. Raises ValueError for an empty start, or characters
    that the model does not know.
    """
    unknown = sorted(set(start) - set(vocabulary))
    if unknown or not start:
        raise ValueError("start must hold one known character or more; "
                         f"unknown are {unknown}")
    generator = torch.Generator().manual_seed(seed)
    read = [vocabulary.index(character) for character in start]
    tokens = torch.tensor([read])  # (1, i)
    for _ in range(length):
        logits = model(tokens[:, -128:])[0, -1]  # (n_tokens,)
        chances = (logits / temperature).softmax(dim=-1)
        drawn = torch.multinomial(chances, 1, generator=generator)
        tokens = torch.cat((tokens, drawn[None]), dim=1)
    return "".join(vocabulary[token] for token in tokens[0])


def save(model, vocabulary, folder):
    """Write a model of ``transformer`` to my_model.npz, beside my_model.py.

    my_model.py is a copy of this file. Raises ValueError for a model with
    other parts.
    """
    blocks = [layer for layer in model.layers if isinstance(layer, Block)]
    n_heads = blocks[0].attention.n_heads if blocks else 1
    sizes = [model.embedding.embedding_dim, n_heads, len(blocks)]
    again = transformer(len(vocabulary), *sizes)
    if str(model) != str(again):  # str lists all parts
        raise ValueError("load could not build this model again: transformer "
                         "has other parts")
    arrays = {name: parameter.numpy()
              for name, parameter in model.state_dict().items()}
    np.savez(Path(folder, "my_model.npz"), sizes=sizes, vocabulary=vocabulary,
             **arrays)
    source = Path(__file__).read_text(encoding="utf-8")
    Path(folder, "my_model.py").write_text(source, encoding="utf-8")


def load(path):
    """Return (model, vocabulary). Raises ValueError for a damaged file."""
    try:
        with open(path, "rb") as file:
            stored = np.load(file)  # without pickles, which could run code
            arrays = {name: stored[name] for name in stored}
        sizes, vocabulary = arrays.pop("sizes"), str(arrays.pop("vocabulary"))
        model = transformer(len(vocabulary), *sizes.tolist())
        model.load_state_dict({name: torch.tensor(array)
                               for name, array in arrays.items()})
    except Exception as error:
        raise ValueError(f"{path} is missing, damaged or not a model that "
                         "save wrote") from error
    return model, vocabulary


if __name__ == "__main__":
    start = sys.argv[1] if len(sys.argv) > 1 else "The "
    try:
        print(write(*load(Path(__file__).with_suffix(".npz")), start))
    except ValueError as error:
        sys.exit(str(error))
