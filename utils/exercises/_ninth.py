"""The judge of an exercise on ten programs: a case for what eight cases let through."""

import math

import torch

from utils import parity
from utils.attention.heads import merge_heads, split_heads
from utils.checks import TOLERANCES
from utils.parity.ten import project

SIZES = ("batch", "n_q", "n_k", "n_heads", "d_head")
FLAGS = ("causal", "padding", "self_attention")
LARGEST = 40


def ninth(options):
    """Judge the options of a case by the wrong programs that it tells from the reference."""
    if not isinstance(options, dict) or set(options) - {*SIZES, *FLAGS, "seed"}:
        return f"The answer is a dict of options of parity.case: {', '.join((*SIZES, *FLAGS))}."
    options = {name: value for name, value in options.items() if value not in (None, ...)}
    odd = [name for name in SIZES if options.get(name, 1) not in range(1, LARGEST + 1)]
    if odd:
        return f"{', '.join(odd)}: a whole number from 1 to {LARGEST}; a good case is small."
    case = parity.case(**{name: int(value) for name, value in options.items()})
    lives = [name for name, change in WRONG.items() if not _caught(change, case)]
    if not lives:
        return ""
    return (f"{len(WRONG) - len(lives)} of {len(WRONG)} are caught. Equal to the reference in your "
            f"case, too: {'; '.join(lives)}.")


def _caught(change, case):
    """Return whether a case tells a wrong program from the reference; raising tells, too."""
    try:
        gap = parity.differences(parity.torch_function("", wrong(change)), case)["out"]
    except Exception:  # a size that does not fit
        return True
    return not gap <= TOLERANCES["float64"]


def wrong(change):
    """Return attention with something changed: {name of a part: its replacement}."""
    scale = change.get("scale", lambda d: 1 / math.sqrt(d))
    heads = change.get("heads", lambda n: n)
    hide = change.get("hide", lambda keep: keep)
    axis = change.get("axis", lambda n_q, n_k: -1)

    def program(x, memory, W, n_heads, keep):
        q, k, v = (split_heads(side, heads(n_heads)) for side in project(x, memory, W))
        scores = scale(W["W_q"].shape[1] // n_heads) * q @ k.mT
        weights = scores.masked_fill(~hide(keep), -math.inf).softmax(axis(*scores.shape[-2:]))
        return merge_heads(weights.nan_to_num() @ v) @ W["W_o"] + W["b_o"]
    return program


WRONG = {
    "the one that multiplies all scores by 1/2": {"scale": lambda d: 0.5},
    "the one that has three heads, whatever it is told": {
        "heads": lambda n: 3, "scale": lambda d: 1 / math.sqrt(d)},
    "the one that reads only the first eight keys": {
        "hide": lambda keep: keep & (torch.arange(keep.shape[-1]) < 8)},
    "the one that gives all examples after the second the mask of the second": {
        "hide": lambda keep: keep[torch.arange(len(keep)).clamp(max=1)]},
    "the one that takes the longer side for the keys": {
        "axis": lambda n_q, n_k: -2 if n_q > n_k else -1}}
