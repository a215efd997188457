"""The data of the head browser: tokens and weights, checked, and packed for the browser.

Weights travel as float32 in base64. Of causal weights, only what lies on or below the diagonal.
"""

import base64
import math
from numbers import Integral

import numpy as np

from utils import checks

# What can be drawn on a telephone, and what a page should carry.
MOST = {"layers": 16, "heads": 16, "tokens": 64, "keys": 64}
MOST_BYTES = 300_000
# How far from 1 rounding to bfloat16 takes the sum of a row.
ROUNDING = 5e-3


def packed(tokens, weights, keys=None, scores=None, start=(0, 0)):
    """Return what ``explore.head_browser`` sends to the browser, a dict of plain values.

    The arguments are those of ``explore.head_browser``; it says what is raised for bad ones.
    """
    weights = checks.to_numpy(weights).astype(np.float64)  # (layer, h, i, j)
    if weights.ndim != 4:
        raise ValueError(f"weights should be (layer, h, i, j), got shape {weights.shape}")
    layers, heads, n_q, n_k = weights.shape
    tokens = _labels("tokens", tokens, "n_q", n_q)
    if keys is None and n_q != n_k:
        raise ValueError(f"weights have n_q={n_q} queries and n_k={n_k} keys: pass keys, too")
    keys = None if keys is None else _labels("keys", keys, "n_k", n_k)
    for (name, most), size in zip(MOST.items(), weights.shape, strict=True):
        if not 1 <= size <= most:
            raise ValueError(f"{size} {name} cannot be drawn, only 1 to {most}")
    _check_rows(weights)
    causal = n_q == n_k and not np.triu(weights, 1).any()
    if not (len(start) == 2 and all(isinstance(n, Integral) for n in start)
            and 0 <= start[0] < layers and 0 <= start[1] < heads):
        raise ValueError(f"start={tuple(start)} is not one of {layers} layers and {heads} heads")
    return {"tokens": tokens, "keys": keys, "shape": list(weights.shape), "causal": causal,
            "weights": _base64(weights[..., *np.tril_indices(n_q)] if causal else weights),
            "scores": _scores(scores or {}, (layers, heads)), "start": [int(n) for n in start]}


def _labels(name, labels, axis, size):
    """Return tokens as a list of str. Raises TypeError for others, ValueError for their number."""
    labels = list(labels)
    for n, label in enumerate(labels):
        if not isinstance(label, str):
            raise TypeError(f"{name}[{n}] should be a str, got {type(label).__name__}")
    if len(labels) != size:
        raise ValueError(f"there are {len(labels)} {name}, and weights have {axis}={size}")
    return labels


def _check_rows(weights):
    """Raise ValueError for the first row of weights (layer, h, i, j) that is none."""
    sums = weights.sum(axis=-1)
    off = np.minimum(abs(sums - 1), abs(sums))
    for bad, wrong in ((~np.isfinite(weights).all(axis=-1), "holds numbers that are not finite"),
                       ((weights < 0).any(axis=-1), "holds a negative weight"),
                       (off > ROUNDING, "sums to {:.3f}, and should to 1 (or 0)")):
        if bad.any():
            layer, head, i = np.argwhere(bad)[0]
            raise ValueError(f"weights of layer {layer}, head {head}: row {i} "
                             + wrong.format(sums[layer, head, i]))


def _scores(scores, shape):
    """Return {name: nested list}. Raises ValueError unless each is finite and (layer, h)."""
    lists = {}
    for name, score in scores.items():
        score = checks.to_numpy(score).astype(np.float64)
        if score.shape != shape:
            raise ValueError(f"scores[{name!r}] should be (layer, h) = {shape}, got {score.shape}")
        if not np.isfinite(score).all():
            raise ValueError(f"scores[{name!r}] holds numbers that are not finite")
        lists[str(name)] = score.tolist()
    return lists


def _base64(weights):
    """Return float32 numbers, little-endian, as base64. Raises ValueError for too many bytes."""
    size = 4 * math.ceil(4 * weights.size / 3)
    if size > MOST_BYTES:
        raise ValueError(f"the weights take {size / 1000:.0f} kB, at most {MOST_BYTES / 1000:.0f}: "
                         "pass fewer tokens, layers or heads")
    return base64.b64encode(weights.astype("<f4").tobytes()).decode("ascii")
