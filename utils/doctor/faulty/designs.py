"""Parts of today's models in float64 NumPy: rotary positions, norms of q and k, and more."""

from typing import NamedTuple

import numpy as np

from ... import masks

FEATURES = {"elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))) + 1,
            "relu": lambda x: np.maximum(x, 0)}


class Rotary(NamedTuple):
    """Rotary positions: "halves" or "pairs" of dimensions are rotated together, by base ** ….

    ``sign``: -1 rotates the other way. ``share``: of the dimensions of a head, the first so many
    are rotated.
    """

    pairing: str
    base: float
    sign: int = 1
    share: float = 1.0


def normalised(x, unit):
    """Return x (b, h, i, d) with a norm or root mean square of 1 in every head, or over all."""
    if unit == "l2":
        return x / np.maximum(np.sqrt((x ** 2).sum(axis=-1, keepdims=True)), 1e-12)
    x = x - x.mean(axis=-1, keepdims=True) if unit == "layer" else x
    axes = (1, 3) if unit == "rms of all heads" else -1
    return x / np.sqrt((x ** 2).mean(axis=axes, keepdims=True) + 1e-6)


def distances(shape, align):
    """Return the distance of query and key times the slope of the head, (h, i, j)."""
    _, n_heads, n_q, n_k = shape
    return np.array(_slopes(n_heads))[:, None, None] * abs(masks.offsets(n_q, n_k, align))


def _slopes(n_heads):
    """Return the slopes of ALiBi; beside a power of two, every other one of twice as many."""
    closest = 2 ** int(np.log2(n_heads))
    found = [2.0 ** (-8 * n / closest) for n in range(1, closest + 1)]
    return found if closest == n_heads else found + _slopes(2 * closest)[::2][:n_heads - closest]


def rotated(x, rotary, start=0):
    """Return x (b, h, i, d) rotated by its position, from ``start``; unchanged if d is odd."""
    n, d = x.shape[-2], int(rotary.share * x.shape[-1])
    if d % 2:
        return x
    x, rest = x[..., :d], x[..., d:]
    angle = (start + np.arange(n))[:, None] * rotary.base ** (-2 * np.arange(d // 2) / d)
    cos, sin = np.cos(angle), rotary.sign * np.sin(angle)  # (i, d / 2)
    axis = -1 if rotary.pairing == "pairs" else -2
    a, b = np.moveaxis(x.reshape(*x.shape[:-1], *((d // 2, 2) if axis == -1 else (2, d // 2))),
                       axis, 0)
    turned = np.stack([a * cos - b * sin, b * cos + a * sin], axis=axis).reshape(x.shape)
    return np.concatenate([turned, rest], axis=-1)
