"""A decoder that writes: RoPE, RMSNorm, normalised queries and keys. Taught in `language_model`.

Each part says where it comes from; what they do together is measured in the chapter.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from utils.attention.cache import Cache, CausalAttention
from utils.attention.positions import rotary, rotate


def rms_norm(x):
    """Return x divided by the root of its mean square, (…, d) -> (…, d); no parameters."""
    return F.rms_norm(x, x.shape[-1:])


class RotaryAttention(CausalAttention):
    """Causal attention with RoPE on normalised q and k, (b, i, e) -> (b, i, e).

    A score is then at most gain * sqrt(d); ``gain``, one number a head, learns how sharp the head
    should be. Sources: RoPE https://arxiv.org/abs/2104.09864, normalised q and k with a gain
    https://arxiv.org/abs/2010.04245.
    """

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, bias=False)
        self.gain = nn.Parameter(torch.full((n_heads, 1, 1), 2.0))

    def heads_at(self, x, positions):
        """Return q, k and v, (b, h, i, d) each, q and k normalised and turned."""
        q, k, v = self.project(x)
        where = positions[..., None, :].double()
        cos, sin = rotary(where, q.shape[-1])  # (…, 1, i, d / 2)
        q, k = (rotate(rms_norm(side), cos, sin) for side in (q, k))
        return self.gain * q, k, v


class Block(nn.Module):
    """Attention, then a feed-forward layer, each added to the stream, (b, i, e) -> (b, i, e).

    Both begin as zero (their last matrices are), so a deep stack begins as the identity. The
    feed-forward layer squares what ReLU lets through, https://arxiv.org/abs/2109.08668.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention = RotaryAttention(d_model, n_heads)
        self.up = nn.Linear(d_model, 4 * d_model, bias=False)
        self.down = nn.Linear(4 * d_model, d_model, bias=False)
        nn.init.zeros_(self.attention.W_o.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x, positions=None, cache=None):
        """Return the stream after both; ``positions`` and ``cache`` as in ``CausalAttention``."""
        x = x + self.attention(rms_norm(x), positions, cache)
        return x + self.down(F.relu(self.up(rms_norm(x))).square())


class LanguageModel(nn.Module):
    """A decoder-only transformer over characters, (b, i) -> logits (b, i, vocabulary)."""

    def __init__(self, n_tokens, d_model=128, n_heads=4, n_layers=4):
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads) for _ in range(n_layers))
        self.unembedding = nn.Linear(d_model, n_tokens, bias=False)
        nn.init.zeros_(self.unembedding.weight)

    def caches(self):
        """Return an empty cache for each layer."""
        return [Cache(block.attention.window) for block in self.blocks]

    def forward(self, tokens, positions=None, caches=None):
        """Return the logits of the next token at every place, (b, i) -> (b, i, vocabulary).

        ``positions`` as in ``CausalAttention``; ``caches``, one a layer, are read and extended.
        """
        x = rms_norm(self.embedding(tokens))  # (b, i, e)
        caches = caches or [None] * len(self.blocks)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, positions, cache)
        return self.unembedding(rms_norm(x))


def next_token_loss(model, tokens):
    """Return the mean loss, in nats, of each token after the first, (b, n) -> scalar."""
    logits = model(tokens[:, :-1])  # (b, n - 1, vocabulary)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


@torch.no_grad()
def bits(model, passages):
    """Return the mean surprise, in bits per token, of passages (b, n) after their first tokens."""
    losses = [next_token_loss(model, part) * len(part) for part in passages.split(64)]
    return sum(losses).item() / len(passages) / math.log(2)


@torch.no_grad()
def write(model, tokens, length, temperature=1.0, generator=None, cached=True):
    """Continue each row of tokens by ``length`` drawn ones, (b, i) -> (b, i + length), i > 0.

    ``temperature``: 0 takes the likeliest, 1 draws as the model believes; raises ValueError below
    0. ``generator`` lives on the CPU. Without the cache all is computed anew for each token; the
    result is the same.
    """
    if temperature < 0:
        raise ValueError(f"temperature={temperature}: it divides, and may be 0 or more")
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
    """Return [Muon, AdamW]: Muon for the matrices inside the blocks, AdamW for all the rest.

    Muon makes each step nearly orthogonal: all directions of a matrix move about alike. Source:
    https://kellerjordan.github.io/posts/muon/.
    """
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    return [torch.optim.Muon(matrices, lr=muon_lr, weight_decay=0.0),
            torch.optim.AdamW(rest, lr=adamw_lr, betas=(0.9, 0.95), weight_decay=0.0)]
