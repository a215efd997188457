"""Multi-head attention and its gradient, line by line in NumPy. Taught in `backward_by_hand`.

A backward function takes the *upstream gradient* ``grad_out``: the gradient of the loss with
respect to the output of the forward function, of the same shape. It returns the gradients of the
inputs.
"""

import math

import numpy as np

from .. import checks
from .numpy import masked_softmax


def check_grad_out(grad_out, shape):
    """Raise ValueError unless the upstream gradient has the shape of the output, ``shape``."""
    if np.shape(grad_out) != tuple(shape):
        cause = "; for the loss out.sum(), pass ones" if np.ndim(grad_out) == 0 else ""
        raise ValueError("the upstream gradient must have the shape of the output, "
                         f"{tuple(shape)}, got {np.shape(grad_out)}{cause}")


def softmax_backward(weights, grad_out):
    """Return the gradient of the scores, (…, i, j), (…, i, j) -> (…, i, j).

    ``weights`` are the attention weights that softmax returned. Where they are 0, as for masked
    keys, the gradient is exactly 0. ``grad_out`` is the gradient of the weights. Raises ValueError
    unless the two shapes are equal.
    """
    check_grad_out(grad_out, weights.shape)
    average = (weights * grad_out).sum(axis=-1, keepdims=True)  # (…, i, 1)
    return weights * (grad_out - average)


def attention_backward(q, k, v, weights, grad_out):
    """Return the gradients of q, k and v, each shaped like its array.

    ``q`` is (…, i, d), ``k`` (…, j, d), ``v`` (…, j, d_v), ``weights`` (…, i, j) as softmax
    returned them, and ``grad_out`` (…, i, d_v). Raises ValueError unless it has the shape of the
    context.
    """
    check_grad_out(grad_out, (*q.shape[:-1], v.shape[-1]))
    g_v = weights.mT @ grad_out  # (…, j, d_v)
    g_weights = grad_out @ v.mT  # (…, i, j)
    g_scores = softmax_backward(weights, g_weights) / math.sqrt(q.shape[-1])
    return g_scores @ k, g_scores.mT @ q, g_v


def split(x, n_heads):
    """Split the dimensions into heads, (b, i, h * d) -> (b, h, i, d).

    Its backward is ``merge``. Raises ValueError when n_heads does not divide the last axis.
    """
    d_head = checks.heads(x, n_heads)
    return x.reshape(*x.shape[:2], n_heads, d_head).swapaxes(1, 2)


def merge(x):
    """Merge the heads, (b, h, i, d) -> (b, i, h * d); inverse of ``split``."""
    batch, n_heads, length, d_head = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, n_heads * d_head)


def linear_backward(x, W, grad_out):
    """Return the gradients of x, W and b in x @ W + b.

    They are (b, i, m), (m, n) and (n,). ``grad_out`` is (b, i, n). All examples and tokens share W
    and b, so their gradients are sums over both. Raises ValueError unless ``grad_out`` has the
    shape of x @ W.
    """
    check_grad_out(grad_out, (*x.shape[:-1], W.shape[1]))
    tokens, g = x.reshape(-1, len(W)), grad_out.reshape(-1, W.shape[1])
    return grad_out @ W.T, tokens.T @ g, g.sum(axis=0)


def multi_head_attention(x, memory, W, n_heads, keep=None):
    """Return (out, kept); ``kept`` holds what the backward function needs.

    (b, i, d_in), (b, j, d_in) -> (b, i, d_out). ``W`` is a dict like the one from
    ``sizes.weights``; ``keep`` is bool, True = may attend, and broadcasts to (b, h, i, j). The
    context of a fully masked row is zero. Raises ValueError or TypeError for sizes or a mask that
    do not fit.
    """
    q = split(x @ W["W_q"] + W["b_q"], n_heads)  # (b, h, i, d)
    k = split(memory @ W["W_k"] + W["b_k"], n_heads)  # (b, h, j, d)
    v = split(memory @ W["W_v"] + W["b_v"], n_heads)
    keep = checks.keep(keep, q, k, v)
    weights = masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), keep)
    context = merge(weights @ v)  # (b, i, e)
    out = context @ W["W_o"] + W["b_o"]
    return out, (x, memory, W, q, k, v, weights, context)


def multi_head_attention_backward(kept, grad_out):
    """Return the gradients of ``x``, ``memory`` and every key of W, a dict.

    ``kept`` is what ``multi_head_attention`` returned with out, ``grad_out`` (b, i, d_out) the
    gradient of out. In self-attention (memory is x), the gradient of x is the sum of those of ``x``
    and ``memory``. Raises ValueError unless ``grad_out`` has the shape of out.
    """
    x, memory, W, q, k, v, weights, context = kept
    g_context, W_o, b_o = linear_backward(context, W["W_o"], grad_out)
    g_context = split(g_context, q.shape[1])  # (b, h, i, d)
    g_q, g_k, g_v = attention_backward(q, k, v, weights, g_context)
    g_x, W_q, b_q = linear_backward(x, W["W_q"], merge(g_q))
    by_k, W_k, b_k = linear_backward(memory, W["W_k"], merge(g_k))
    by_v, W_v, b_v = linear_backward(memory, W["W_v"], merge(g_v))
    return {"x": g_x, "memory": by_k + by_v, "W_q": W_q, "W_k": W_k,
            "W_v": W_v, "W_o": W_o, "b_q": b_q, "b_k": b_k, "b_v": b_v,
            "b_o": b_o}
