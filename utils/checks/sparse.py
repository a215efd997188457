"""Checks of the arguments of ``utils.attention.sparse``."""

from .arguments import boolean
from .numbers import count
from .sides import array


def indexer(q, k, w):
    """Raise unless q is (…, h, i, d), k is (…, j, d) and w is (…, h, i)."""
    array(q, "q", 3)
    array(k, "k", 2)
    array(w, "w", 2)
    if q.shape[:-1] != w.shape or (*q.shape[:-3], q.shape[-1]) != (*k.shape[:-2], k.shape[-1]):
        raise ValueError("q must be (…, h, i, d), k (…, j, d) and w (…, h, i), got q "
                         f"{tuple(q.shape)}, k {tuple(k.shape)} and w {tuple(w.shape)}")


def choice(scores, keep, n, name="n"):
    """Raise unless scores and keep (bool) have one shape (…, i, j), and ``n`` is at least 1."""
    array(scores, "scores", 2)
    boolean(keep)
    count(n, name)
    if scores.shape != keep.shape:
        raise ValueError("keep must have the shape of scores, got "
                         f"{tuple(keep.shape)} and {tuple(scores.shape)}")
