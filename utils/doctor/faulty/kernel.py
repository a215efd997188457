"""Attention in float64 NumPy with a switch for every fault; with all off, it is the reference.

The switches are data: which array plays which role, the scale, the axes of the softmax, what is
done with the mask, and how the causal mask is aligned. ``utils.doctor.faults`` names the faults.
"""

from typing import NamedTuple

import numpy as np

from ... import masks, reference

KEYS, QUERIES, HEADS, BATCH = 3, 2, 1, 0  # axes of the scores, (b, h, i, j)
SCALES = {"right": lambda h, d, n: d ** -0.5, "none": lambda h, d, n: 1.0,
          "model": lambda h, d, n: (h * d) ** -0.5, "twice": lambda h, d, n: 1.0 / d,
          "inverse": lambda h, d, n: d ** 0.5, "heads": lambda h, d, n: h ** -0.5,
          "keys": lambda h, d, n: n ** -0.5, "times model": lambda h, d, n: (h * d) ** 0.5,
          "after softmax": lambda h, d, n: 1.0}
FEATURES = {"elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))) + 1,
            "relu": lambda x: np.maximum(x, 0)}
FULLY_MASKED = ("zeros", "nan", "average", "unmasked")  # what a fully masked row may get


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


def attention(q, k, v, keep=None, *, band=EVERYWHERE, align="top_left", roles="qkv",
              scale="right", axes=(KEYS,), masking=MASK_RIGHT, tile=False, fully_masked="zeros",
              rotary=None, turned="qk", shift=0, unit="", gain=1.0, cap=None, sink=None,
              dropped="first", sink_scaled=False, factor=1.0, slopes=False, feature=""):
    """Return (context, weights), (b, h, i, d_v) and (b, h, i, j).

    q is (b, h, i, d), k (b, h_kv, j, d) and v (b, h_kv, j, d_v). ``align``: "top_left" or
    "bottom_right", the alignment of ``band``. ``roles``: which of q, k, v are used as query, key
    and value. ``scale``: a name in SCALES or a number. ``axes`` of the scores (b, h, i, j) that the
    softmax sums over. ``tile``: repeat the heads of k and v as 0 1 0 1 instead of 0 0 1 1.
    ``fully_masked``: the weights of a fully masked row are "zeros", "nan", the "average" (all
    equal) or "unmasked" (as without a mask).

    Designs that are no faults: ``rotary``, (pairing, base), rotates q and k, or the letters in
    ``turned``, by their positions, "halves" or "pairs" of dimensions together; the queries are
    ``shift`` positions later. ``unit``: q and k are normalised by their "rms", their "l2" norm, or
    as by a "layer" norm, times ``gain``; "rms of all heads" normalises all heads together. ``cap``:
    scores are bounded to cap · tanh(score / cap). ``sink``: a score, or one for each head, that
    every row has besides its keys, and whose weight is dropped; it stands first, and if the "last"
    column is dropped, each key gets the weight of the one before it. If ``sink_scaled``, it is
    multiplied by the factor of the scores. ``factor``: one more factor of the scores. ``slopes``:
    the distance of query and key, times a slope for each head, is subtracted (ALiBi). ``feature``:
    a name in FEATURES; the weights are proportional to the product of the features of q and k,
    without an exponential (linear attention).
    """
    if k.shape[1] != q.shape[1]:
        k, v = (_repeated(x, q.shape[1], tile) for x in (k, v))
    inputs = {"q": q, "k": k, "v": v}
    q, k, v = (inputs[letter] for letter in roles)
    if unit:
        q, k = (gain * _normalised(x, unit) for x in (q, k))
    if rotary:
        q, k, v = (_rotated(x, *rotary, start) if letter in turned else x
                   for letter, x, start in (("q", q, shift), ("k", k, 0), ("v", v, 0)))
    factor *= scale if isinstance(scale, float) else SCALES[scale](
        q.shape[1], q.shape[3], k.shape[2])
    scores = factor * (q @ k.swapaxes(-1, -2))
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    if feature:
        with np.errstate(divide="ignore"):
            scores = np.log(FEATURES[feature](q) @ FEATURES[feature](k).swapaxes(-1, -2))
    if slopes:
        scores = scores - _distances(scores.shape, align)
    parts = {"keep": keep, "causal": _causal(scores.shape, band, align)}
    scores, allowed, after = _masked_scores(scores, parts, masking, factor)
    sink = np.multiply(factor, sink) if sink_scaled and sink is not None else sink
    weights = after * _softmax(scores, allowed, axes, fully_masked, sink)
    weights = weights * q.shape[3] ** -0.5 if scale == "after softmax" else weights
    if dropped == "last":
        weights = np.concatenate([1.0 - weights.sum(-1, keepdims=True), weights[..., :-1]], axis=-1)
    return weights @ v, weights


def _repeated(x, n_heads, tile):
    """Return k or v (b, h_kv, j, …) with as many heads as q, (b, h, j, …)."""
    if tile:
        return np.tile(x, (1, n_heads // x.shape[1], 1, 1))
    return reference.repeat_heads(x, n_heads)


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


def _normalised(x, unit):
    """Return x (b, h, i, d) with a norm or root mean square of 1 in every head, or over all."""
    if unit == "rms of all heads":
        return x / np.sqrt((x ** 2).mean(axis=(1, 3), keepdims=True) + 1e-6)
    if unit == "l2":
        return x / np.maximum(np.sqrt((x ** 2).sum(axis=-1, keepdims=True)), 1e-12)
    x = x - x.mean(axis=-1, keepdims=True) if unit == "layer" else x
    return x / np.sqrt((x ** 2).mean(axis=-1, keepdims=True) + 1e-6)


def _distances(shape, align):
    """Return the distance of query and key times the slope of the head, (h, i, j)."""
    n_heads, n_q, n_k = shape[1:]
    first = n_k - n_q if align == "bottom_right" else 0
    steps = abs(first + np.arange(n_q)[:, None] - np.arange(n_k))
    return np.array(_slopes(n_heads))[:, None, None] * steps


def _slopes(n_heads):
    """Return the slopes of ALiBi; beside a power of two, every other one of twice as many."""
    closest = 2 ** int(np.log2(n_heads))
    found = [2.0 ** (-8 * n / closest) for n in range(1, closest + 1)]
    return found if closest == n_heads else found + _slopes(2 * closest)[::2][:n_heads - closest]


def _rotated(x, pairing, base, start=0):
    """Return x (b, h, i, d) rotated by its position, from ``start``; unchanged if d is odd."""
    n, d = x.shape[-2:]
    if d % 2:
        return x
    angle = (start + np.arange(n))[:, None] * base ** (-2 * np.arange(d // 2) / d)  # (i, d / 2)
    cos, sin = np.cos(angle), np.sin(angle)
    axis = -1 if pairing == "pairs" else -2
    a, b = np.moveaxis(x.reshape(*x.shape[:-1], *((d // 2, 2) if axis == -1 else (2, d // 2))),
                       axis, 0)
    return np.stack([a * cos - b * sin, b * cos + a * sin], axis=axis).reshape(x.shape)


def _softmax(scores, allowed, axes, fully_masked, sink=None):
    """Return the weights (b, h, i, j), which sum to 1 along the axes where ``allowed`` is True."""
    masked = ~allowed.any(axis=axes, keepdims=True)
    if fully_masked == "average":
        scores = np.where(masked, 0.0, scores)
    if fully_masked in ("average", "unmasked"):
        allowed = allowed | masked
    scores = np.where(allowed, scores, -np.inf)
    largest = scores.max(axis=axes, keepdims=True)
    exps = np.exp(scores - np.where(np.isneginf(largest), 0.0, largest))
    total = exps.sum(axis=axes, keepdims=True)
    if sink is not None:
        with np.errstate(over="ignore"):
            sink = np.reshape(sink, (-1, 1, 1))  # one for each head, or for all
            total = total + np.exp(sink - np.where(np.isneginf(largest), 0.0, largest))
    if fully_masked == "zeros":
        return exps / np.where(total == 0.0, 1.0, total)
    with np.errstate(invalid="ignore"):
        return exps / total
