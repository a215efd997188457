"""Multi-head attention in pure ``jax.numpy``. Taught in chapter `jax_arrays`.

A layer is a function, and its parameters are a dict whose arrays have an axis for the heads, h:
``W_q W_k W_v`` (d_in, h, d), ``b_q b_k b_v`` (h, d), ``W_o`` (h, d, d_out) and ``b_o`` (d_out,).
``parity.weights.to_jax`` makes it of a weight set. All functions can be compiled by ``jax.jit``.
"""

import math

from .. import checks, frameworks

jax = frameworks.jax()

HEAD_AXES = {"W_q": 1, "W_k": 1, "W_v": 1, "W_o": 0,
             "b_q": 0, "b_k": 0, "b_v": 0}


def attention(q, k, v, keep=None):
    """Return (context, weights), (…, i, d_v) and (…, i, j).

    ``q`` is (…, i, d), ``k`` (…, j, d), ``v`` (…, j, d_v). ``keep`` is bool, True = may attend, and
    broadcasts to (…, i, j). Fully masked rows become zeros. Raises ValueError or TypeError for
    sides or a mask that do not fit. Source: https://arxiv.org/abs/1706.03762, equation 1.
    """
    keep = checks.keep(keep, q, k, v)
    scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])  # (…, i, j)
    weights = jax.nn.softmax(scores, where=keep)
    return weights @ v, weights


def one_head(head, x, memory, keep):
    """Return what one head adds to the output, (b, i, d_out).

    ``head`` holds the parameters of one head: those of the layer without the axis h, and without
    ``b_o``. ``x`` is (b, i, d_in), ``memory`` (b, j, d_in), and ``keep`` broadcasts to (b, i, j).
    """
    q = x @ head["W_q"] + head["b_q"]  # (b, i, d)
    k = memory @ head["W_k"] + head["b_k"]  # (b, j, d)
    v = memory @ head["W_v"] + head["b_v"]
    context, _ = attention(q, k, v, keep)
    return context @ head["W_o"]


def multi_head_attention(params, x, memory, keep=None):
    """Return out (b, i, d_out), ``one_head`` mapped over the heads.

    ``params`` is the dict that the module describes, ``x`` is (b, i, d_in), ``memory``
    (b, j, d_in). ``keep`` is bool, True = may attend, and broadcasts to (b, h, i, j). In a fully
    masked row, the result is ``b_o``. Raises ValueError or TypeError for parameters, inputs or a
    mask that do not fit.
    """
    keep = checks.head_parameters(params, x, memory, keep)  # (b, h, i, j)
    per_head = {name: params[name] for name in HEAD_AXES}
    mapped = jax.vmap(one_head, in_axes=(HEAD_AXES, None, None, 1))
    return mapped(per_head, x, memory, keep).sum(axis=0) + params["b_o"]
