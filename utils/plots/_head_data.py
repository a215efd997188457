"""Check the data of the head browser, tokens and attention weights, and encode it for the page.

Weights are encoded as float32 in base64. Causal weights are encoded without the elements above the
diagonal.
"""

import base64
import math
from numbers import Integral

import numpy as np

from .. import checks

# Limits for a small screen, and for the size of a page.
MOST = {"layers": 16, "heads": 16, "tokens": 64, "keys": 64}
MOST_BYTES = 300_000
# The largest deviation of a row sum from 1 that rounding to bfloat16 causes.
ROUNDING = 5e-3


def packed(tokens, weights, keys=None, scores=None, start=(0, 0)):
    """Return the configuration of ``explore.head_browser`` for its template, a dict.

    Arguments and errors are those of ``explore.head_browser``.
    """
    weights = checks.to_numpy(weights).astype(np.float64)  # (layer, h, i, j)
    if weights.ndim != 4:
        raise ValueError(f"weights must be (layer, h, i, j), got {weights.shape}")
    layers, heads, n_q, n_k = weights.shape
    tokens = _labels("tokens", tokens, "n_q", n_q)
    if keys is None and n_q != n_k:
        raise ValueError(f"weights have n_q={n_q} queries and n_k={n_k} keys: pass keys as well")
    keys = None if keys is None else _labels("keys", keys, "n_k", n_k)
    for (name, most), size in zip(MOST.items(), weights.shape, strict=True):
        if not 1 <= size <= most:
            raise ValueError(f"the number of {name} must be in 1 .. {most}, got {size}")
    _check_rows(weights)
    causal = n_q == n_k and not np.triu(weights, 1).any()
    if not (len(start) == 2 and all(isinstance(n, Integral) for n in start)
            and 0 <= start[0] < layers and 0 <= start[1] < heads):
        raise ValueError(f"start must be (layer, head), at most ({layers - 1}, {heads - 1}), got "
                         f"{tuple(start)}")
    return {"tokens": tokens, "keys": keys, "shape": list(weights.shape), "causal": causal,
            "weights": _base64(weights[..., *np.tril_indices(n_q)] if causal else weights),
            "scores": _scores(scores or {}, (layers, heads)), "start": [int(n) for n in start]}


def _labels(name, labels, axis, size):
    """Return labels as a list of str.

    Raises TypeError for another type, ValueError for another number of labels than ``size``.
    """
    labels = list(labels)
    for n, label in enumerate(labels):
        if not isinstance(label, str):
            raise TypeError(f"{name}[{n}] must be a str, got {type(label).__name__}")
    if len(labels) != size:
        raise ValueError(f"weights have {axis}={size}, got {len(labels)} {name}")
    return labels


def _check_rows(weights):
    """Raise ValueError for the first row of weights (layer, h, i, j) that is not valid."""
    sums = weights.sum(axis=-1)
    off = np.minimum(abs(sums - 1), abs(sums))
    for bad, wrong in ((~np.isfinite(weights).all(axis=-1), "has elements that are not finite"),
                       ((weights < 0).any(axis=-1), "has a negative weight"),
                       (off > ROUNDING, "must sum to 1, or to 0 if fully masked, got {:.3f}")):
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
            raise ValueError(f"scores[{name!r}] must be (layer, h) = {shape}, got {score.shape}")
        if not np.isfinite(score).all():
            raise ValueError(f"scores[{name!r}] has elements that are not finite")
        lists[str(name)] = score.tolist()
    return lists


def _base64(weights):
    """Return weights as base64 of little-endian float32. Raises ValueError for too many bytes."""
    size = 4 * math.ceil(4 * weights.size / 3)
    if size > MOST_BYTES:
        raise ValueError(f"the weights must take at most {MOST_BYTES / 1000:.0f} kB, got "
                         f"{size / 1000:.0f} kB: pass fewer tokens, layers or heads")
    return base64.b64encode(weights.astype("<f4").tobytes()).decode("ascii")
