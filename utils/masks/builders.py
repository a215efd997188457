"""Functions that build masks. Taught in chapter `masks`, ``chunks`` in `todays_models`.

A mask here is called ``keep``: a NumPy array of bool, **True = this query may attend to this key**,
which broadcasts to (b, h, i, j). Combine masks with ``&`` and convert them once, at the end. Every
program in ``utils`` takes such an array, or a bool tensor of its own framework.
"""

import math

import numpy as np

from .. import checks


def offsets(n_q, n_k=None, align=None):
    """Return by how many positions key j follows query i, (i, j) integers.

    Negative offsets mean that key j precedes query i. With ``align="top_left"``, query 0 has the
    position of key 0; with ``"bottom_right"``, the last query has the position of the last key, as
    in decoding with a cache. ``n_k`` defaults to n_q. Raises ValueError when n_q != n_k and no
    alignment is given.
    """
    n_k = n_q if n_k is None else n_k
    checks.corner(n_q, n_k, align)
    first = n_k - n_q if align == "bottom_right" else 0
    positions = first + np.arange(n_q)  # of the queries
    return np.arange(n_k) - positions[:, None]  # (i, j)


def causal(n_q, n_k=None, align=None):
    """Return keep (i, j): True where key j does not follow query i.

    ``align`` as in ``offsets``; it is required only when n_q != n_k.
    """
    return offsets(n_q, n_k, align) <= 0


def window(n_q, n_k, left, right=0, align=None):
    """Return keep (i, j): ``left`` keys before a query, ``right`` after it.

    ``left`` and ``right`` count keys and are at least 0; ``align`` as in ``offsets``.
    """
    left, right = checks.counts(least=0, left=left, right=right)
    offset = offsets(n_q, n_k, align)
    return (-left <= offset) & (offset <= right)


def chunks(n_q, n_k, size, align=None):
    """Return keep (i, j): True where query and key are in one chunk.

    A chunk has ``size`` positions, and the first one begins with key 0. Unlike in a window, the
    first query of a chunk attends to no earlier key. Combine with ``causal``; ``align`` as in
    ``offsets``.
    """
    checks.count(size, "size")
    keys = np.arange(n_k)
    return (keys - offsets(n_q, n_k, align)) // size == keys // size


def padding(lengths, n_k):
    """Return keep (b, 1, 1, j): True for the first lengths[b] keys.

    ``lengths``: (b,) integers, 0 allowed. Raises ValueError when one is not in 0 .. n_k.
    """
    lengths = checks.lengths(lengths, n_k)
    return (np.arange(n_k) < lengths[:, None])[:, None, None, :]  # (b, 1, 1, j)


def band(positions, n_k, left=None, right=None):
    """Return keep for queries at any positions: p may attend to keys p - left .. p + right.

    ``positions`` are integers, (i,) or (b, i), and may be negative: the index of the key at each
    query's position. The result is (i, j) or (b, 1, i, j). ``left`` and ``right`` count keys; None
    = no limit, and -1 leaves out the query's own position. ``causal`` and ``window`` are bands of
    queries at consecutive positions. Raises TypeError for what is not an integer.
    """
    positions = checks.integers(positions, "positions")
    checks.counts(least=-math.inf, **{name: n for name, n in (("left", left), ("right", right))
                                      if n is not None})
    checks.count(n_k, "n_k")
    positions = positions[:, None] if positions.ndim == 2 else positions
    offset = np.arange(n_k) - positions[..., None]  # (…, i, j), j - p
    keep = np.ones(offset.shape, dtype=bool)
    if left is not None:
        keep &= -left <= offset
    if right is not None:
        keep &= offset <= right
    return keep


def decoder(lengths, n):
    """Return keep (b, 1, i, j) of a decoder: causal, with padding masked."""
    return causal(n) & padding(lengths, n)
