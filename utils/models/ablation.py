"""A language model of which each modern part can be taken away. Compared in `language_model`.

With all of ``PARTS`` it is the course's ``LanguageModel``, with none of them a decoder with the
parts of GPT-2: learned positions, LayerNorm, GELU. No matrix has a bias in either, and both
normalise the vectors of the tokens. ``make train`` trains both,
each part alone and each taken away, and writes what they reach to ``PATH``.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from .. import checks, setup
from ..attention.cache import CausalAttention
from ..attention.positions import rotary, rotate
from . import char_model, corpus, muon, training
from .language_model import bits, rms_norm

PATH = setup.COURSE / "data" / "ablation.json"
PARTS = ("RoPE", "RMSNorm", "QK-norm", "squared ReLU", "zero init", "Muon")
SIZES = {"d_model": 64, "n_heads": 4, "n_layers": 2}
ROOM = 128  # learned positions


class PartialAttention(CausalAttention):
    """Causal attention with RoPE and QK-norm, or without, (b, i, e)."""

    def __init__(self, d_model, n_heads, parts):
        super().__init__(d_model, n_heads, bias=False)
        self.parts = parts
        if "QK-norm" in parts:
            self.gain = nn.Parameter(torch.full((n_heads, 1, 1), 2.0))

    def heads_at(self, x, positions):
        """Return q, k, v (b, h, i, d); q and k are normalised and rotated if the parts say so."""
        q, k, v = self.project(x)
        if "QK-norm" in self.parts:
            q, k = rms_norm(q), rms_norm(k)
        if "RoPE" in self.parts:
            cos, sin = rotary(positions[..., None, :].double(), q.shape[-1])
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        return self.gain * q if "QK-norm" in self.parts else q, k, v


class PartialBlock(nn.Module):
    """Attention and a feed-forward layer, each added to x, (b, i, e)."""

    def __init__(self, d_model, n_heads, parts):
        super().__init__()
        self.parts = parts
        self.attention = PartialAttention(d_model, n_heads, parts)
        self.up = nn.Linear(d_model, 4 * d_model, bias=False)
        self.down = nn.Linear(4 * d_model, d_model, bias=False)
        self.norms = nn.ModuleList(norm(d_model, parts) for _ in range(2))

    def forward(self, x):
        """Return x after both."""
        x = x + self.attention(self.norms[0](x))
        hidden = self.up(self.norms[1](x))
        hidden = F.relu(hidden).square() if "squared ReLU" in self.parts else F.gelu(hidden)
        return x + self.down(hidden)


class PartialModel(nn.Module):
    """A decoder-only transformer with some of ``PARTS``, (b, i) -> logits (b, i, vocabulary).

    Without "zero init", the last matrix of each layer and of the model starts as random as the
    others. "Muon" changes nothing here, but says which ``optimisers`` train the model. Raises
    ValueError for an unknown part.
    """

    def __init__(self, n_tokens, parts, d_model=64, n_heads=4, n_layers=2):
        super().__init__()
        self.parts = known(parts)
        self.embedding = nn.Embedding(n_tokens, d_model)
        if "RoPE" not in parts:
            self.position = nn.Embedding(ROOM, d_model)
        self.norms = nn.ModuleList(norm(d_model, parts) for _ in range(2))
        layers = range(checks.count(n_layers, "n_layers"))
        self.blocks = nn.ModuleList(PartialBlock(d_model, n_heads, parts) for _ in layers)
        self.unembedding = nn.Linear(d_model, n_tokens, bias=False)
        if "zero init" in parts:
            for last in (self.unembedding, *(block.down for block in self.blocks),
                         *(block.attention.W_o for block in self.blocks)):
                nn.init.zeros_(last.weight)

    def forward(self, tokens):
        """Return the logits of each next token, (b, i, vocabulary)."""
        x = self.embedding(checks.tokens(tokens, self.embedding))
        if "RoPE" not in self.parts:
            x = x + self.position.weight[:tokens.shape[1]]
        x = self.norms[0](x)
        for block in self.blocks:
            x = block(x)
        return self.unembedding(self.norms[1](x))


def variants():
    """Return {name: parts} of what is compared: all, none, each part taken away, each alone."""
    return {"all": PARTS, "none": (),
            **{f"without {part}": tuple(p for p in PARTS if p != part) for part in PARTS},
            **{f"only {part}": (part,) for part in PARTS}}


def known(parts):
    """Return parts as a frozenset; raise ValueError for one that is not in ``PARTS``."""
    if unknown := set(parts) - set(PARTS):
        raise ValueError(f"parts must be some of {', '.join(PARTS)}; got "
                         f"{', '.join(sorted(unknown))}")
    return frozenset(parts)


def norm(d_model, parts):
    """Return RMSNorm without parameters, or LayerNorm with its gain and bias."""
    if "RMSNorm" in parts:
        return nn.RMSNorm(d_model, elementwise_affine=False)
    return nn.LayerNorm(d_model)


def optimisers(model, scale=1.0):
    """Return what trains a PartialModel: [Muon, AdamW] as in the chapter, or [AdamW] alone.

    The learning rates are those of the chapter, 0.02 and 0.006, times ``scale``.
    """
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2 and "Muon" in model.parts]
    rest = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    adamw = torch.optim.AdamW(rest, lr=0.006 * scale, betas=(0.9, 0.95), weight_decay=0.0)
    return [muon.Muon(matrices, lr=0.02 * scale, weight_decay=0.0), adamw] if matrices else [adamw]


def trained_bits(text, parts, scale, seed, steps=600, batch=16, sizes=SIZES):
    """Return the bits per character that a PartialModel needs after its training, a float.

    ``text`` is a Corpus. The learning rate falls to 0 in a line. A run whose loss becomes infinite
    returns infinity.
    """
    torch.manual_seed(seed)
    model = PartialModel(len(text.vocabulary), parts, **sizes)
    run = training.new_run(model, optimisers(model, scale), steps, seed)
    tokens = corpus.encode(text.train, text.vocabulary)
    try:
        training.train(run, partial(char_model.draw_loss, tokens=tokens, batch=batch))
    except FloatingPointError:
        return float("inf")
    return bits(model.eval(), corpus.rows(text.passages, text.vocabulary))
