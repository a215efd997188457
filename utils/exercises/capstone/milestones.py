"""The seven milestones, in the order in which they are judged."""

from collections.abc import Callable
from typing import NamedTuple

from . import block, heads, model, parts, training, writing


class Milestone(NamedTuple):
    """What a file must define, with its arguments, and who judges it.

    If ``with_model`` is true, the judge also takes the reader's Model.
    """

    defines: str
    arguments: str
    judge: Callable
    with_model: bool = False


MILESTONES = {
    "attention": Milestone("attention", "q, k, v, keep", parts.attention),
    "mask": Milestone("causal", "n", parts.mask),
    "heads": Milestone("MultiHead", "d_model, n_heads", heads.heads),
    "block": Milestone("Block", "d_model, n_heads", block.block),
    "model": Milestone("Model", "n_tokens, d_model, n_heads, n_layers", model.model),
    "training": Milestone("train", "model, tokens, steps", training.training, True),
    "writing": Milestone("write", "model, tokens, n, temperature", writing.writing, True)}
