"""Attention in NumPy. Taught in Part 1 and in chapter `per_head_loops`.

``mha`` is that of picoGPT (https://github.com/jaymody/picoGPT), for batches and any mask, with the
packed parameters ``c_attn`` and ``c_proj`` of GPT-2.
"""

import math

import numpy as np

from .. import checks


def additive_scores(q, k, W_q, W_k, w_v):
    """Return the scores w_v · tanh(q W_q + k W_k), (…, i, j).

    ``q`` is (…, i, d_q), ``k`` (…, j, d_k), ``W_q`` (d_q, hidden), ``W_k`` (d_k, hidden) and
    ``w_v`` (hidden,). Source: https://arxiv.org/abs/1409.0473, appendix A.1.2.
    """
    hidden = (q @ W_q)[..., :, None, :] + (k @ W_k)[..., None, :, :]
    return np.tanh(hidden) @ w_v  # (…, i, j, hidden) -> (…, i, j)


def softmax(scores):
    """Return softmax over the last axis, without overflow, (…, j)."""
    checks.scores(scores)
    shifted = scores - scores.max(axis=-1, keepdims=True)  # largest becomes 0
    exps = np.exp(shifted)
    return exps / exps.sum(axis=-1, keepdims=True)


def masked_softmax(scores, keep=None):
    """Return softmax over the keys that are not masked, (…, i, j).

    ``scores`` are (…, i, j). ``keep`` is bool, True = may attend, and broadcasts to the scores.
    Fully masked rows become zeros.
    """
    if keep is None:
        return softmax(scores)
    empty = ~checks.boolean(keep).any(axis=-1, keepdims=True)  # (…, i, 1)
    scores = np.where(keep, scores, -np.inf)
    return np.where(empty, 0, softmax(np.where(empty, 0, scores)))


def attention(q, k, v, keep=None):
    """Return (context, weights), (…, i, d_v) and (…, i, j).

    ``q`` is (…, i, d), ``k`` (…, j, d), ``v`` (…, j, d_v). ``keep`` is bool, True = may attend, and
    broadcasts to (…, i, j). Raises ValueError or TypeError for a mask that does not fit. Source:
    https://arxiv.org/abs/1706.03762, equation 1.
    """
    keep = checks.keep(keep, q, k, v)
    scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])  # (…, i, j)
    weights = masked_softmax(scores, keep)
    return weights @ v, weights


def additive_attention(q, k, v, W_q, W_k, w_v, keep=None):
    """Return (context, weights) with the scores w_v · tanh(q W_q + k W_k).

    (…, i, d_q), (…, j, d_k), (…, j, d_v) -> (…, i, d_v), (…, i, j). ``W_q``, ``W_k`` and ``w_v`` as
    in ``additive_scores``; ``keep`` and errors as in ``attention``.
    """
    keep = checks.keep(keep, q @ W_q, k @ W_k, v)
    weights = masked_softmax(additive_scores(q, k, W_q, W_k, w_v), keep)
    return weights @ v, weights


def linear(x, w, b):
    """Return x w + b, (…, m, in), (in, out), (out,) -> (…, m, out)."""
    return x @ w + b


def mha(x, c_attn, c_proj, n_head, keep=None):
    """Return multi-head self-attention, (…, n_seq, n_out).

    x is (…, n_seq, n_in). ``c_attn`` is a dict with ``w`` (n_in, 3 * n_embd) and ``b`` (3 *
    n_embd,): the projections packed as [q | k | v]. ``c_proj`` is a dict with ``w`` (n_embd, n_out)
    and ``b`` (n_out,). ``keep`` is bool, True = may attend, the same for all heads, and broadcasts
    to (…, n_seq, n_seq). Raises ValueError when n_head does not divide n_embd, and as ``attention``
    does. Names and layout are those of GPT-2:
    https://github.com/openai/gpt-2/blob/master/src/model.py
    """
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)  # 3 × (…, n_seq, n_embd)
    checks.divisible(qkv[0].shape[-1], n_head)
    qkv_heads = [np.split(side, n_head, axis=-1) for side in qkv]
    contexts = [attention(q, k, v, keep)[0]  # n_head × (…, n_seq, d)
                for q, k, v in zip(*qkv_heads, strict=True)]
    context = np.concatenate(contexts, axis=-1)  # (…, n_seq, n_embd)
    return linear(context, **c_proj)
