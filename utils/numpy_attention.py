"""Attention in NumPy: the taught programs. Taught in Part 1 and in chapter `per_head_loops`.

The multi-head program is the finished and corrected form of an encoder that works on one example
at a time, with GPT-2's packed weights ``c_attn`` and ``c_proj``.
"""

import numpy as np

from utils import checks


def softmax(scores):
    """Return exp(scores) divided by its sum over the last axis, without overflow. (…, j)."""
    shifted = scores - scores.max(axis=-1, keepdims=True)  # largest becomes 0
    exps = np.exp(shifted)
    return exps / exps.sum(axis=-1, keepdims=True)


def masked_softmax(scores, keep=None):
    """Return softmax over the keys that ``keep`` allows, (…, i, j) -> (…, i, j).

    ``keep`` is bool, True = may attend, and broadcasts to the scores. A query that may attend to
    nothing gets zeros.
    """
    if keep is None:
        return softmax(scores)
    empty = ~keep.any(axis=-1, keepdims=True)  # (…, i, 1)
    scores = np.where(keep | empty, scores, -np.inf)
    return np.where(empty, 0, softmax(scores))


def attention(q, k, v, keep=None):
    """Return softmax(q kᵀ / sqrt(d)) v, (…, i, d), (…, j, d), (…, j, d_v) -> (…, i, d_v).

    ``keep`` is bool, True = may attend, and broadcasts to (…, i, j). Raises ValueError or TypeError
    for a mask that does not fit. Source: https://arxiv.org/abs/1706.03762, equation 1.
    """
    keep = checks.keep(keep, q, k)
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1])  # (…, i, j)
    return masked_softmax(scores, keep) @ v
