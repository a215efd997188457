"""The exercises of the chapter on sparse attention."""

import math

import torch

from ..attention.sparse import top_keys
from ..checks import difference
from ._check import Check, Exercise


def _blocks(program):
    """Judge blocks(real, size): the block of each token, counted from its first real one."""
    real = torch.tensor([[True] * 9, [False] * 3 + [True] * 6, [False] * 8 + [True]])
    for size in (4, 3):
        found = program(real.clone(), size)
        if not isinstance(found, torch.Tensor) or found.shape != real.shape:
            return f"It must return a tensor of the shape {tuple(real.shape)}."
        place = torch.arange(9).expand_as(real)
        want = torch.where(real, (place - (~real).sum(dim=-1, keepdim=True)) // size, -1)
        if torch.equal(found.long(), want):
            continue
        if difference(found[real], (place // size)[real]) == 0:
            return "The blocks are counted from the array index, so the padding moves them."
        if difference(found[real], want[real]) == 0:
            return "The real tokens are right. Padding must get −1."
        return f"With blocks of {size}, the blocks of real tokens are wrong."
    return ""


def _with_newest(program):
    """Judge with_newest(scores, keep, n): a choice that holds the last allowed key."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn((2, 7, 7), generator=generator, dtype=torch.float64)
    keep = torch.ones(2, 7, 7, dtype=torch.bool).tril()
    keep[1, :, :2] = False                              # padding on the left, two rows are empty
    found = program(scores.clone(), keep.clone(), 3)
    if not isinstance(found, torch.Tensor) or found.dtype != torch.bool:
        return "It must return a tensor of bools."
    if found.shape != keep.shape:
        return f"It must have the shape {tuple(keep.shape)}, not {tuple(found.shape)}."
    newest = torch.eye(7, dtype=torch.bool) & keep
    if (found & ~keep).any():
        return "A masked key is chosen. What does top-k take if too few keys are allowed?"
    if (newest & ~found).any():
        return "Some query does not get its last allowed key."
    if (found.sum(dim=-1) > 3).any():
        return "Some query gets more than n keys. The newest key counts, too."
    if not torch.equal(found, top_keys(scores.masked_fill(newest, math.inf), keep, 3)):
        return "Beside the newest key, each query must get its allowed keys of the highest scores."
    return ""


check = Check({
    "blocks": Exercise(_blocks, (
        "The position of a token is the number of real tokens before it.",
        "real.long().cumsum(dim=-1) − 1 is the position of each real token.",
        "Divide it by size with //, and put −1 where real is False."),
        "So a request gets the same blocks, however many columns of padding stand before it."),
    "with_newest": Exercise(_with_newest, (
        "Give the newest key a score that no other key can have.",
        "It is the allowed key after which no allowed key comes: flip, cumsum, flip.",
        "Set its score to infinity and call top_keys."),
        "A choice without a query's own token can be made safe in this way, at the price of one "
        "of the n keys."),
})
