"""Constants of a kernel, estimated from its weights: the scale, a mask value, a window.

With one-hot values, v = identity, the context *is* the weights. Their logarithms are scale · q·k,
up to a constant in each slice of the softmax. So differences within a slice give the scale, and
what masked elements have instead of q·k gives the mask value.
"""

import numpy as np

from ... import checks, masks
from ..faulty.kernel import BATCH, HEADS, KEYS, QUERIES, Masking
from ..probes import Finding

AXES = ((KEYS,), (QUERIES,), (HEADS,), (HEADS, KEYS), (BATCH,))
TOLERANCE = 1e-5
GOLDEN = 0.381966
TINY = 1e-37  # below this, float32 loses its digits


def scales(weights, products, where):
    """Return {axes: scale} for the axes along which log-weights are linear in the products q·k.

    ``weights`` and ``products`` are (b, h, i, j), and bool ``where`` broadcasts to that. Weights of
    zero are left out.
    """
    seen = where & (weights > 0)
    found = {}
    for axes in AXES:
        x, y, used = _within(products, weights, seen, axes)
        if not used.any() or not (x ** 2).sum() > 0:
            continue
        scale = (x * y).sum() / (x ** 2).sum()
        if checks.difference(scale * x, y) < TOLERANCE:
            found[axes] = float(scale)
    return found


def mask_value(weights, products, keep, where, axes, scale):
    """Return the Masking of a program whose masked keys keep some weight, "fill" or "add", or None.

    ``keep`` and ``where`` are bool (b, h, i, j); only elements in ``where`` count. The value is
    read from weights that are not zero. If all of them are below TINY, their digits are lost, and
    the value is rounded to two digits.
    """
    seen = where & keep & (weights > 0)
    soft = where & ~keep & seen.any(axis=axes, keepdims=True)
    tiny = soft.any() and weights[soft].max() < TINY
    if not soft.any() or ((weights[soft] <= 0).any() and not tiny):
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
            return Masking(how, value=float(values.mean()))
    if tiny:
        how, values = min(("fill", filled), ("add", added), key=lambda pair: np.ptp(pair[1]))
        if np.ptp(values) < 2:
            return Masking(how, value=float(f"{values.mean():.2g}"))
    return None


def reach(weights, align):
    """Return (left, right): how far from its position a query attends, None = to the end.

    ``weights``: (b, h, i, j), of a call without a mask. ``align``: as of a causal mask.
    """
    offset = masks.offsets(*weights.shape[2:], align)
    attended = offset[(weights != 0).any(axis=(0, 1))]
    if not attended.size:
        return None, None
    left, right = -int(attended.min()), int(attended.max())
    return None if left >= -offset.min() else left, None if right >= offset.max() else right


def row_sums(weights, tolerance):
    """Return the Finding, in a list, on the sum of all rows of weights (b, h, i, j).

    The list is empty if they differ, or if a weight is negative: then they may be no weights.
    """
    sums = weights.sum(axis=-1)
    total = float(sums.mean())
    if not (np.ptp(sums) < tolerance < total and weights.min() > -tolerance):
        return []
    ok, square = abs(total - 1) < tolerance, round(total ** -2)
    root = f"√{square}" if square ** 0.5 % 1 else f"{square ** 0.5:.0f}"
    which = f", which is 1/{root}" if square > 1 and abs(total ** -2 - square) < 1e-3 else ""
    return [Finding("row sums", ok, total, tolerance, "", "The weights of each row sum to 1." if ok
                    else f"Where all values are 1, each output is {total:.2g}{which}; expected 1: "
                    "do the weights of each row sum to 1?")]


def sink(weights, products, where, scale):
    """Return the sink of each head (h,) that explains why weights (b, h, i, j) sum to less than 1.

    None if none does. ``where`` is bool (i, j) or (b, h, i, j), the keys that are attended to.
    """
    total = weights.sum(axis=-1)
    if not ((total > 0) & (total < 1 - TOLERANCE)).all():
        return None
    exps = np.where(where, np.exp(scale * products), 0.0).sum(axis=-1)
    found = np.log(exps) + np.log(1 / total - 1)  # (b, h, i)
    return found.mean(axis=(0, 2)) if np.ptp(found, axis=(0, 2)).max() < TOLERANCE else None


def fitted(error, grid, steps=50):
    """Return the number for which ``error(x)`` is smallest, by golden section.

    The search starts around the best number of ``grid``, which is ascending.
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
    """Return (x, y, used): products and log-weights minus their means over a slice, and where."""
    count = seen.sum(axis=axes, keepdims=True)
    used = seen & (count > 1)
    with np.errstate(all="ignore"):
        logs = np.where(seen, np.log(weights), 0.0)

    def centred(x):
        mean = np.where(seen, x, 0).sum(axis=axes, keepdims=True) / np.maximum(count, 1)
        return np.where(used, x - mean, 0.0)

    return centred(products), centred(logs), used
