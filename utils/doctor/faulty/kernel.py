"""One attention in float64 NumPy with a switch for every fault; with none on, the reference.

What is varied is data: which array plays which role, the scale, the axes of the softmax, what is
done with the mask, where the causal band hangs. The names of the faults are in
``utils.doctor.faults``.
"""

from typing import NamedTuple

import numpy as np

from utils import masks, reference

KEYS, QUERIES, HEADS, BATCH = 3, 2, 1, 0  # axes of the scores, (b, h, i, j)
SCALES = {"right": lambda h, d: d ** -0.5, "none": lambda h, d: 1.0,
          "model": lambda h, d: (h * d) ** -0.5, "twice": lambda h, d: 1.0 / d,
          "inverse": lambda h, d: d ** 0.5}


class Hiding(NamedTuple):
    """What is done with the mask, or with the part of it called "keep" or "causal".

    ``how``: "hide" (right), "ignore", "invert", "after" (weights times mask), "fill" (hidden scores
    become ``value``) or "add" (``value`` is added to them), ``scaled``: before they are scaled.
    """

    how: str = "hide"
    part: str = "both"
    value: float = 0.0
    scaled: bool = False


class Band(NamedTuple):
    """Which keys a query sees by position: p - left .. p + right, None = without end."""

    left: int | None = None
    right: int | None = None


EVERYWHERE, HIDE = Band(), Hiding()


def attention(q, k, v, keep=None, *, band=EVERYWHERE, corner="top_left", roles="qkv",
              scale="right", axes=(KEYS,), hiding=HIDE, tile=False, empty="zeros"):
    """Return (context, weights): (b, h, i, d), (b, h, j, d), (b, h, j, d_v) -> (b, h, i, d_v), …

    ``roles``: which of q, k, v the program takes for q, k and v; ``scale``: a name in SCALES or a
    number; ``axes`` of the scores (b, h, i, j) that the softmax sums to 1; ``tile`` the heads of k
    and v instead of repeating them. ``empty``: the weights of a slice that is hidden altogether are
    "zeros", "nan", the "average", or "unmasked" as if nothing were hidden.
    """
    if k.shape[1] != q.shape[1]:
        k, v = (_grouped(x, q.shape[1], tile) for x in (k, v))
    inputs = {"q": q, "k": k, "v": v}
    q, k, v = (inputs[letter] for letter in roles)
    factor = scale if isinstance(scale, float) else SCALES[scale](q.shape[1], q.shape[3])
    scores = factor * (q @ k.swapaxes(-1, -2))
    parts = {"keep": keep, "causal": _causal(scores.shape, band, corner)}
    scores, seen, after = _hidden(scores, parts, hiding, factor)
    weights = after * _softmax(scores, seen, axes, empty)
    return weights @ v, weights


def _grouped(x, n_heads, tile):
    if tile:
        return np.tile(x, (1, n_heads // x.shape[1], 1, 1))
    return reference.repeat_heads(x, n_heads)


def _causal(shape, band, corner):
    """Return what the positions allow, (i, j), or None where they allow everything."""
    if band == EVERYWHERE:
        return None
    n_q, n_k = shape[-2:]
    first = n_k - n_q if corner == "bottom_right" else 0
    return masks.band(first + np.arange(n_q), n_k, *band)


def _hidden(scores, parts, hiding, factor):
    """Return (scores, seen, after): what enters the softmax, what it sees, what follows it."""
    faulty = [m for name, m in parts.items() if m is not None and hiding.part in ("both", name)]
    right = [m for name, m in parts.items() if m is not None and hiding.part not in ("both", name)]
    seen, mask = np.ones(scores.shape, dtype=bool), np.ones(scores.shape, dtype=bool)
    for m in right:
        seen &= m
    for m in faulty:
        mask &= m
    if not faulty or hiding.how == "ignore":
        return scores, seen, 1.0
    value = hiding.value * (factor if hiding.scaled else 1.0)
    if hiding.how == "fill":
        return np.where(mask, scores, value), seen, 1.0
    if hiding.how == "add":
        return scores + np.where(mask, 0.0, value), seen, 1.0
    if hiding.how == "after":
        return scores, seen, mask
    return scores, seen & (~mask if hiding.how == "invert" else mask), 1.0


def _softmax(scores, seen, axes, empty):
    """Return the weights, which sum to 1 along the axes over what is seen."""
    fallen = ~seen.any(axis=axes, keepdims=True)
    if empty == "average":
        scores = np.where(fallen, 0.0, scores)
    if empty in ("average", "unmasked"):
        seen = seen | fallen
    scores = np.where(seen, scores, -np.inf)
    largest = scores.max(axis=axes, keepdims=True)
    exps = np.exp(scores - np.where(np.isneginf(largest), 0.0, largest))
    total = exps.sum(axis=axes, keepdims=True)
    if empty == "zeros":
        return exps / np.where(total == 0.0, 1.0, total)
    with np.errstate(invalid="ignore"):
        return exps / total
