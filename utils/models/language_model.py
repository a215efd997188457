"""A language model with RoPE, RMSNorm, normalised queries and keys. Taught in `language_model`.

The docstring of each part names its source; the chapter measures how they work together.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .. import checks
from ..attention.cache import Cache, CausalAttention
from ..attention.positions import rotary, rotate
from . import muon


def rms_norm(x):
    """Return x divided by the root of its mean square, (…, d)."""
    return F.rms_norm(x, x.shape[-1:])


class RotaryAttention(CausalAttention):
    """Causal attention with RoPE on normalised q and k, (b, i, e).

    A score is then at most gain * sqrt(d). ``gain``, one parameter per head, learns how sharp the
    softmax of the head is. Sources: RoPE https://arxiv.org/abs/2104.09864, normalised q and k with
    a gain https://arxiv.org/abs/2010.04245.
    """

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, bias=False)
        self.gain = nn.Parameter(torch.full((n_heads, 1, 1), 2.0))

    def heads_at(self, x, positions):
        """Return q, k, v (b, h, i, d); q and k are normalised and rotated."""
        q, k, v = self.project(x)
        where = positions[..., None, :].double()
        cos, sin = rotary(where, q.shape[-1])  # (…, 1, i, d / 2)
        q, k = (rotate(rms_norm(side), cos, sin) for side in (q, k))
        return self.gain * q, k, v


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to x, (b, i, e).

    The last matrix of both is initialised to zero, so a deep stack starts as the identity. The
    feed-forward layer squares the output of ReLU, https://arxiv.org/abs/2109.08668.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention = RotaryAttention(d_model, n_heads)
        self.up = nn.Linear(d_model, 4 * d_model, bias=False)
        self.down = nn.Linear(4 * d_model, d_model, bias=False)
        nn.init.zeros_(self.attention.W_o.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x, positions=None, cache=None):
        """Return x after both; arguments as in ``CausalAttention``."""
        x = x + self.attention(rms_norm(x), positions, cache)
        return x + self.down(F.relu(self.up(rms_norm(x))).square())


class LanguageModel(nn.Module):
    """A decoder-only transformer, (b, i) -> logits (b, i, vocabulary)."""

    def __init__(self, n_tokens, d_model=128, n_heads=4, n_layers=4):
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_model)
        layers = range(checks.count(n_layers, "n_layers"))
        self.blocks = nn.ModuleList(Block(d_model, n_heads) for _ in layers)
        self.unembedding = nn.Linear(d_model, n_tokens, bias=False)
        nn.init.zeros_(self.unembedding.weight)

    def caches(self):
        """Return an empty cache for each layer."""
        return [Cache(block.attention.window) for block in self.blocks]

    def forward(self, tokens, positions=None, caches=None):
        """Return the logits of each next token, (b, i, vocabulary).

        ``positions`` as in ``CausalAttention``; ``caches``, one per layer, are extended.
        """
        x = rms_norm(self.embedding(checks.tokens(tokens, self.embedding)))
        caches = [None] * len(self.blocks) if caches is None else caches
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, positions, cache)
        return self.unembedding(rms_norm(x))


def next_token_loss(model, tokens):
    """Return the mean loss, in nats, of all tokens (b, n) but the first."""
    logits = model(tokens[:, :-1])  # (b, n - 1, vocabulary)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


@torch.no_grad()
def bits(model, passages):
    """Return the mean loss of passages (b, n), in bits per token."""
    losses = [next_token_loss(model, part) * len(part) for part in passages.split(64)]
    return sum(losses).item() / len(passages) / math.log(2)


@torch.no_grad()
def write(model, tokens, length, temperature=1.0, generator=None, cached=True):
    """Append ``length`` drawn tokens, (b, i) -> (b, i + length).

    i must be at least 1. With ``temperature`` 0, each token is the likeliest; with 1, it is drawn
    from the distribution of the model. ``generator`` is on the CPU. Without the cache, everything
    is computed again for each token; the result is the same. Raises ValueError for a negative
    temperature.
    """
    checks.writing(length, temperature)
    caches = model.caches() if cached else None
    unread = tokens
    for _ in range(length):
        logits = model(unread if cached else tokens, caches=caches)[:, -1]
        if temperature == 0:
            drawn = logits.argmax(dim=-1, keepdim=True)
        else:
            chances = (logits / temperature).softmax(dim=-1).cpu()
            drawn = torch.multinomial(chances, 1, generator=generator)
        unread = drawn.to(tokens)  # (b, 1)
        tokens = torch.cat((tokens, unread), dim=1)
    return tokens


def optimisers(model, muon_lr=0.02, adamw_lr=0.006):
    """Return [Muon, AdamW]: Muon for the matrices of the blocks.

    AdamW is for all other parameters. Muon makes each update nearly orthogonal: it changes all
    directions of a matrix by about the same amount. Source:
    https://kellerjordan.github.io/posts/muon/.
    """
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    return [muon.Muon(matrices, lr=muon_lr, weight_decay=0.0),
            torch.optim.AdamW(rest, lr=adamw_lr, betas=(0.9, 0.95), weight_decay=0.0)]
