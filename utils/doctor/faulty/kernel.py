"""Attention in float64 NumPy with a switch for every fault; with all off, it is the reference.

The switches are data: which array plays which role, the scale, the axes of the softmax, what is
done with the mask, and how the causal mask is aligned. ``utils.doctor.faults`` names the faults.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ... import masks
from . import designs
from .designs import Rotary

KEYS, QUERIES, HEADS, BATCH = 3, 2, 1, 0  # axes of the scores, (b, h, i, j)
SCALES = {"right": lambda h, d, n: d ** -0.5, "none": lambda h, d, n: 1.0,
          "model": lambda h, d, n: (h * d) ** -0.5, "twice": lambda h, d, n: 1.0 / d,
          "inverse": lambda h, d, n: d ** 0.5, "heads": lambda h, d, n: h ** -0.5,
          "keys": lambda h, d, n: n ** -0.5, "times model": lambda h, d, n: (h * d) ** 0.5}
# What a fully masked row may get: weights of "zeros", NaN, all equal, or as without a mask.
FULLY_MASKED = ("zeros", "nan", "average", "unmasked")
EMPTIED = ("", "rows", "context")  # what is 0 then: the weights of such rows, or NaN in the context


class Masking(NamedTuple):
    """What a program does with the mask, or with the part of it called "keep" or "causal".

    ``how``: "mask" (right), "ignore", "invert", "after" (the weights are multiplied by the mask),
    "fill" (masked scores are replaced by ``value``), "add" (``value`` is added to them) or
    "transpose" (if it is square).
    ``scaled``: True if that happens before the scores are scaled.
    """

    how: str = "mask"
    part: str = "both"
    value: float = 0.0
    scaled: bool = False


class Band(NamedTuple):
    """The keys that the query at position p may attend to: p - left to p + right, None = no end."""

    left: int | None = None
    right: int | None = None


EVERYWHERE, MASK_RIGHT = Band(), Masking()


@dataclass(frozen=True)
class Faults:
    """The switches of a kernel. With the defaults, it is the reference."""

    band: Band = EVERYWHERE
    align: str = "top_left"         # the alignment of ``band``; or "bottom_right"
    roles: str = "qkv"              # which of q, k, v are used as query, key and value
    own: bool = False               # each query gets its own value, and the weights are not used
    scale: str | float = "right"    # a name in SCALES or a number
    divided: str = ""               # a name in SCALES, by which the weights are multiplied
    axes: tuple = (KEYS,)           # of the scores (b, h, i, j), over which the softmax sums
    masking: Masking = MASK_RIGHT
    tile: bool = False              # repeat the heads of k and v as 0 1 0 1, not as 0 0 1 1
    fully_masked: str = "zeros"     # one of FULLY_MASKED
    emptied: str = ""               # one of EMPTIED, after a softmax over other axes
    # Designs, which are no faults:
    rotary: Rotary | tuple | None = None  # rotates the letters in ``turned``
    turned: str = "qk"
    shift: int = 0                  # the queries are so many positions later
    unit: str = ""                  # norm of q and k, times ``gain``: see ``designs.normalised``
    gain: float = 1.0
    cap: float | None = None        # scores are bounded to cap · tanh(score / cap)
    sink: object = None             # one more score of every row, or one for each head, first
    dropped: str = "first"          # or the "last" column: each key gets the weight before it
    sink_scaled: bool = False       # the sink is multiplied by the factor of the scores
    factor: float = 1.0             # one more factor of the scores
    slopes: bool = False            # the distance, times a slope per head, is subtracted (ALiBi)
    feature: str = ""               # in designs.FEATURES, no softmax (linear attention)


def attention(q, k, v, keep=None, faults=None, **settings):
    """Return (context, weights), (b, h, i, d_v) and (b, h, i, j), of a kernel with these Faults.

    q is (b, h, i, d), k (b, h_kv, j, d) and v (b, h_kv, j, d_v). Without ``faults``, ``settings``
    are those of Faults.
    """
    faults = faults or Faults(**settings)
    q, k, v = _sides(q, k, v, faults)
    if faults.own:
        return v, np.broadcast_to(np.eye(v.shape[2]), (*v.shape[:3], v.shape[2]))
    size = q.shape[1], q.shape[3], k.shape[2]
    scale = faults.scale if isinstance(faults.scale, float) else SCALES[faults.scale](*size)
    factor = faults.factor * scale
    scores = _scores(q, k, factor, faults)
    parts = {"keep": keep, "causal": _causal(scores.shape, faults.band, faults.align)}
    scores, allowed, after = _masked_scores(scores, parts, faults.masking, factor)
    sink = faults.sink
    sink = np.multiply(factor, sink) if faults.sink_scaled and sink is not None else sink
    weights = after * _softmax(scores, allowed, faults.axes, faults.fully_masked, sink)
    if faults.divided:
        weights = weights * SCALES[faults.divided](*size)
    if faults.dropped == "last":
        weights = np.concatenate([1.0 - weights.sum(-1, keepdims=True), weights[..., :-1]], axis=-1)
    if faults.emptied == "rows":
        _, allowed, _ = _masked_scores(scores, parts, MASK_RIGHT, factor)
        weights = np.where(allowed.any(axis=KEYS, keepdims=True), weights, 0.0)
    context = weights @ v
    return np.nan_to_num(context) if faults.emptied == "context" else context, weights


def _sides(q, k, v, faults):
    """Return the query, key and value (b, h, n, …) that are used."""
    times = q.shape[1] // k.shape[1]
    if faults.tile:
        k, v = (np.tile(x, (1, times, 1, 1)) for x in (k, v))
    elif times > 1:
        k, v = (np.repeat(x, times, axis=1) for x in (k, v))
    inputs = {"q": q, "k": k, "v": v}
    q, k, v = (inputs[letter] for letter in faults.roles)
    if faults.unit:
        q, k = (faults.gain * designs.normalised(x, faults.unit) for x in (q, k))
    if faults.rotary:
        starts = {"q": faults.shift, "k": 0, "v": 0}
        q, k, v = (designs.rotated(x, Rotary(*faults.rotary), starts[letter])
                   if letter in faults.turned else x
                   for letter, x in zip("qkv", (q, k, v), strict=True))
    return q, k, v


def _scores(q, k, factor, faults):
    """Return the scores (b, h, i, j) before the mask."""
    scores = factor * (q @ k.swapaxes(-1, -2))
    if faults.cap is not None:
        scores = faults.cap * np.tanh(scores / faults.cap)
    if faults.feature:
        feature = designs.FEATURES[faults.feature]
        with np.errstate(divide="ignore"):
            scores = np.log(feature(q) @ feature(k).swapaxes(-1, -2))
    return scores - designs.distances(scores.shape, faults.align) if faults.slopes else scores


def _causal(shape, band, align):
    """Return the mask (i, j) of the band, or None where the band allows everything."""
    if band == EVERYWHERE:
        return None
    n_q, n_k = shape[-2:]
    first = n_k - n_q if align == "bottom_right" else 0
    return masks.band(first + np.arange(n_q), n_k, *band)


def _masked_scores(scores, parts, masking, factor):
    """Return (scores, allowed, after): what enters the softmax, its mask, the factor behind it."""
    allowed, mask = np.ones(scores.shape, dtype=bool), np.ones(scores.shape, dtype=bool)
    any_fault = False
    for name, part in parts.items():
        if part is None:
            continue
        if masking.part in ("both", name):
            if masking.how == "transpose" and part.shape[-1] == part.shape[-2]:
                part = part.swapaxes(-1, -2)
            mask &= part
            any_fault = True
        else:
            allowed &= part
    if not any_fault or masking.how == "ignore":
        return scores, allowed, 1.0
    value = masking.value * (factor if masking.scaled else 1.0)
    if masking.how == "fill":
        return np.where(mask, scores, value), allowed, 1.0
    if masking.how == "add":
        return scores + np.where(mask, 0.0, value), allowed, 1.0
    if masking.how == "after":
        return scores, allowed, mask
    if masking.how == "invert":
        return scores, allowed & ~mask, 1.0
    return scores, allowed & mask, 1.0


def _softmax(scores, allowed, axes, fully_masked, sink=None):
    """Return the weights (b, h, i, j), which sum to 1 along the axes where ``allowed`` is True."""
    masked = ~allowed.any(axis=axes, keepdims=True)
    if fully_masked == "average":
        scores = np.where(masked, 0.0, scores)
    if fully_masked in ("average", "unmasked"):
        allowed = allowed | masked
    scores = np.where(allowed, scores, -np.inf)
    largest = scores.max(axis=axes, keepdims=True)
    largest = np.where(np.isneginf(largest), 0.0, largest)
    exps = np.exp(scores - largest)
    total = exps.sum(axis=axes, keepdims=True)
    if sink is not None:
        with np.errstate(over="ignore"):
            total = total + np.exp(np.reshape(sink, (-1, 1, 1)) - largest)
    if fully_masked == "zeros":
        return exps / np.where(total == 0.0, 1.0, total)
    with np.errstate(invalid="ignore"):
        return exps / total
