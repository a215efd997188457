"""Constants of a kernel, read off its weights: the scale, a sentinel, a window.

The weights come from values that are one-hot, v = identity: then the context *is* the weights.
With log w = scale q·k - (a number for each slice of the softmax), differences within a slice give
the scale, and what hidden entries have instead of q·k gives the sentinel.
"""

from typing import NamedTuple

import numpy as np

from utils.doctor.faulty.kernel import BATCH, HEADS, KEYS, QUERIES

AXES = ((KEYS,), (QUERIES,), (HEADS,), (HEADS, KEYS), (BATCH,))
TOLERANCE = 1e-5
GOLDEN = 0.381966
FAINT = 1e-37  # below this, float32 loses its digits


class Hidden(NamedTuple):
    """What hidden scores are: ``how`` "fill" (replaced by value) or "add" (value added)."""

    how: str
    value: float


def scales(weights, products, where):
    """Return {axes: scale} for the axes along which log-weights are linear in the products q·k.

    ``weights`` and ``products`` (b, h, i, j); bool ``where`` broadcasts to that. Weights of zero
    are left out.
    """
    seen = where & (weights > 0)
    found = {}
    for axes in AXES:
        x, y, used = _within(products, weights, seen, axes)
        if not used.any() or not (x ** 2).sum() > 0:
            continue
        slope = (x * y).sum() / (x ** 2).sum()
        if np.abs(y - slope * x).max() < TOLERANCE * max(1.0, np.abs(y).max()):
            found[axes] = float(slope)
    return found


def hidden(weights, products, keep, where, axes, scale):
    """Return what a program that hides softly makes of hidden scores, a Hidden, or None.

    ``keep`` and ``where`` bool (b, h, i, j); only what is in ``where`` is looked at. Only weights
    that are not zero can tell. Where all are nearly that, their digits are lost: then the value is
    rounded to two.
    """
    seen = where & keep & (weights > 0)
    soft = where & ~keep & seen.any(axis=axes, keepdims=True)
    faint = soft.any() and weights[soft].max() < FAINT
    if not soft.any() or ((weights[soft] <= 0).any() and not faint):
        return None
    soft &= weights > 0
    if not soft.any():
        return None
    with np.errstate(all="ignore"):
        rest = np.log(weights) - scale * products
    level = np.where(seen, rest, 0.0).sum(axis=axes, keepdims=True)
    level = level / np.maximum(seen.sum(axis=axes, keepdims=True), 1)
    added, filled = (rest - level)[soft], (rest - level + scale * products)[soft]
    for how, values in (("fill", filled), ("add", added)):
        if np.ptp(values) < TOLERANCE * max(1.0, np.abs(values).max()):
            return Hidden(how, float(values.mean()))
    if faint:
        how, values = min(("fill", filled), ("add", added), key=lambda pair: np.ptp(pair[1]))
        return Hidden(how, float(f"{values.mean():.2g}")) if np.ptp(values) < 2 else None
    return None


def reach(weights, corner):
    """Return (left, right): how far from its own position a query sees, None = to the end.

    ``weights`` (b, h, i, j), of a call without mask; ``corner`` as of a causal mask.
    """
    n_q, n_k = weights.shape[2:]
    first = n_k - n_q if corner == "bottom_right" else 0
    offset = np.arange(n_k) - (first + np.arange(n_q))[:, None]
    heard = offset[(weights != 0).any(axis=(0, 1))]
    if not heard.size:
        return None, None
    left, right = -int(heard.min()), int(heard.max())
    return (None if left >= -int(offset.min()) else left,
            None if right >= int(offset.max()) else right)


def fitted(error, grid, steps=50):
    """Return the number in the range of ``grid``, ascending, for which ``error(x)`` is smallest.

    Around the best of the grid, by golden section.
    """
    best = int(np.argmin([error(x) for x in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(steps):
        step = GOLDEN * (high - low)
        if error(low + step) < error(high - step):
            high -= step
        else:
            low += step
    return float((low + high) / 2)


def _within(products, weights, seen, axes):
    """Return (x, y, used): products and log-weights less their means over a slice, and where."""
    count = seen.sum(axis=axes, keepdims=True)
    used = seen & (count > 1)
    with np.errstate(all="ignore"):
        logs = np.where(seen, np.log(weights), 0.0)
    return *(np.where(used, x - np.where(seen, x, 0).sum(axis=axes, keepdims=True)
                      / np.maximum(count, 1), 0.0)
             for x in (products, logs)), used
