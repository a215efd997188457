"""The rungs of the ladder, and what they reached when `make train` trained them.

``data/ladder.json`` holds a seal, the SHA-256 of all else that stands in it.
"""

import hashlib
import json

import torch
from torch import nn

from .. import files, setup
from . import corpus, ladder
from .ladder import Attention, Block, CharacterModel, RotaryAttention, transformer

PATH = setup.COURSE / "data" / "ladder.json"
SEEDS = (0, 1, 2)
BIGGEST = "two blocks"
# What differs from the defaults of ``ladder.learn``.
SHORT, LONG = {"steps": 80, "batch": 4}, {"steps": 1000}
OPTIONS = {BIGGEST: LONG, "one block, 1000 steps": LONG, "one block, 80 steps": SHORT,
           "twelve blocks": SHORT, "twelve without residuals": SHORT,
           "twelve without norms": SHORT}


class WithoutResiduals(Block):
    """A block that adds nothing to its input."""

    def forward(self, x):
        """Return the output of the feed-forward layer."""
        return self.feed_forward(self.norm_2(self.attention(self.norm_1(x))))


class WithoutFeedForward(Block):
    """A block with attention only."""

    def forward(self, x):
        """Return x plus attention."""
        return x + self.attention(self.norm_1(x))


class ResidualsAfterNorms(Block):
    """A wrong block: its residuals start after the norms, not before."""

    def forward(self, x):
        """Return the norm of x plus what both layers add."""
        x = self.norm_1(x)
        x = self.norm_2(x + self.attention(x))
        return x + self.feed_forward(x)


def stack(n_tokens, kind, n_blocks=1):
    """Return a model of blocks of a class, and a norm after the last."""
    blocks = [kind(RotaryAttention(64, 4), 64) for _ in range(n_blocks)]
    return CharacterModel(n_tokens, 64, *blocks, nn.LayerNorm(64))


def without_norms(n_tokens, n_blocks=1):
    """Return a model of blocks, without any norm."""
    blocks = [Block(RotaryAttention(64, 4), 64) for _ in range(n_blocks)]
    for block in blocks:
        block.norm_1, block.norm_2 = nn.Identity(), nn.Identity()
    return CharacterModel(n_tokens, 64, *blocks)


# Each makes a new model for a number of tokens. Every rung needs fewer bits than the one before.
RUNGS = {
    "no attention": lambda n_tokens: CharacterModel(n_tokens, 64),
    "four heads": lambda n_tokens: CharacterModel(n_tokens, 64, Attention(64, 4)),
    "RoPE": lambda n_tokens: CharacterModel(n_tokens, 64, RotaryAttention(64, 4)),
    "block": lambda n_tokens: stack(n_tokens, Block),
    BIGGEST: transformer,
}
# No rungs, but measured in the same way.
BESIDE = {
    "one head": lambda n_tokens: CharacterModel(n_tokens, 64, Attention(64, 1)),
    "without residuals": lambda n_tokens: stack(n_tokens, WithoutResiduals),
    "without norms": without_norms,
    "without feed-forward": lambda n_tokens: stack(n_tokens, WithoutFeedForward),
    "residuals after norms": lambda n_tokens: stack(n_tokens, ResidualsAfterNorms),
    "one block, 80 steps": lambda n_tokens: stack(n_tokens, Block),
    "one block, 1000 steps": lambda n_tokens: stack(n_tokens, Block),
    "twelve blocks, 600 steps": lambda n_tokens: stack(n_tokens, Block, 12),
    "twelve blocks": lambda n_tokens: stack(n_tokens, Block, 12),
    "twelve without residuals": lambda n_tokens: stack(n_tokens, WithoutResiduals, 12),
    "twelve without norms": lambda n_tokens: without_norms(n_tokens, 12),
}


def trained(name, text, seed):
    """Return a rung, or one of ``BESIDE``, after its training on a Corpus.

    The seed decides the first parameters and the pieces of text.
    """
    torch.manual_seed(seed)
    model = (RUNGS | BESIDE)[name](len(text.vocabulary))
    tokens = corpus.encode(text.train, text.vocabulary)
    ladder.learn(model, tokens, seed=seed, **OPTIONS.get(name, {}))
    return model


def save(found, path=PATH):
    """Write a dict, which JSON can hold, with its seal."""
    data = json.dumps({**found, "seal": seal(found)}, indent=1) + "\n"
    files.write(path, data.encode())


def load(path=PATH):
    """Return what ``save`` wrote, without the seal.

    Raises FileNotFoundError if there is no file, ValueError if it was changed since.
    """
    found = files.read_json(path, "`make train`")
    if not isinstance(found, dict) or found.pop("seal", None) != seal(found):
        raise ValueError(f"{path} was changed after it was written: its seal is another one; "
                         "delete it, and `make train` measures again")
    return found


def seal(found):
    """Return the SHA-256 of a dict without its seal."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
