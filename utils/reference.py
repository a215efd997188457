"""The one equation, in float64 NumPy: the reference implementation for all other programs.

    context = softmax(scale * q kᵀ + mask) v

Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 1 and section 3.2.2. In a
fully masked row, the context and the gradients are zero; this is a convention of this course.
"""

import numpy as np

from . import checks


def float64(x):
    """Return any framework's array as a float64 NumPy array, detached from its graph.

    Raises TypeError unless it is an array of real numbers.
    """
    array = checks.to_numpy(x)
    if array.dtype.kind not in "biuf" and "float" not in str(array.dtype):
        raise TypeError(f"expected an array of real numbers, got {array.dtype}")
    return array.astype(np.float64)


def softmax(scores, axis=-1):
    """Return exp(scores) divided by its sum along ``axis``; if all scores are -inf, zeros."""
    scores = float64(scores)
    largest = scores.max(axis=axis, keepdims=True, initial=-np.inf)  # also of no keys
    exps = np.exp(scores - np.where(np.isneginf(largest), 0.0, largest))
    total = exps.sum(axis=axis, keepdims=True)
    return exps / np.where(total == 0.0, 1.0, total)


def repeat_heads(x, n_heads):
    """Repeat the heads of k or v to match those of q, (…, h_kv, j, d) -> (…, h, j, d).

    Head ``h`` of q uses head ``h // (n_heads / h_kv)`` of k and v: each head is *repeated*, as by
    ``np.repeat``, not tiled. Raises ValueError when n_heads is not a multiple of h_kv.
    """
    x = checks.to_numpy(x)
    if x.ndim < 3:
        raise ValueError(f"expected (…, heads, length, d), got {x.shape}")
    kv_heads = x.shape[-3]
    if n_heads % kv_heads:
        raise ValueError(f"n_heads={n_heads} is not a multiple of the {kv_heads} heads of k and v")
    return np.repeat(x, n_heads // kv_heads, axis=-3)


def attention_scores(q, k, keep=None, bias=None, scale=None, softcap=None):
    """Return the scores before softmax, (…, i, d), (…, j, d) -> (…, i, j), float64.

    The steps, in this order: multiply q kᵀ by ``scale`` (default 1 / sqrt(d)); take
    ``softcap * tanh(scores / softcap)``; add ``bias``; set the score to -inf where ``keep`` is
    False (True = may attend). Raises TypeError when keep is not bool, ValueError when its shape
    does not fit.
    """
    q, k = float64(q), float64(k)
    keep = checks.keep(keep, q, k, grouped=True)
    if q.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k = repeat_heads(k, q.shape[-3])
    scale = 1.0 / np.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * np.einsum("...id,...jd->...ij", q, k)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + float64(bias)
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    return scores


def attention(q, k, v, keep=None, bias=None, scale=None, softcap=None):
    """Return (context, weights): (…, i, d), (…, j, d), (…, j, d_v) -> (…, i, d_v), (…, i, j).

    ``keep`` (bool, True = may attend) and ``bias`` (added to the scores) broadcast to (…, i, j). k
    and v may have fewer heads (axis -3) than q, if that number divides the heads of q. Results are
    float64 for inputs of any dtype. Raises as ``attention_scores`` does, and ValueError for sides
    that do not fit together.
    """
    q, k, v = map(float64, (q, k, v))
    checks.sides(q, k, v, grouped=True)
    weights = softmax(attention_scores(q, k, keep, bias, scale, softcap))
    if weights.ndim > 2 and v.shape[-3] != weights.shape[-3]:
        v = repeat_heads(v, weights.shape[-3])
    return np.einsum("...ij,...jd->...id", weights, v), weights


def attention_loops(q, k, v, keep=None):
    """Return the context of one head, element by element, (i, d), (j, d), (j, d_v) -> (i, d_v)."""
    n_q, d, n_k, d_v = *q.shape, *v.shape
    context = np.zeros((n_q, d_v))
    for i in range(n_q):
        allowed = [j for j in range(n_k) if keep is None or keep[i, j]]
        exps = {j: np.exp(sum(q[i, c] * k[j, c] for c in range(d)) / np.sqrt(d)) for j in allowed}
        for j in allowed:
            for c in range(d_v):
                context[i, c] += exps[j] / sum(exps.values()) * v[j, c]
    return context


def split_heads(x, n_heads):
    """Split the dimensions into heads: (b, i, h * d) -> (b, h, i, d)."""
    checks.heads(x, n_heads)
    return np.stack(np.split(float64(x), n_heads, axis=-1), axis=-3)


def merge_heads(x):
    """Concatenate the heads: (b, h, i, d) -> (b, i, h * d)."""
    return np.concatenate(list(np.moveaxis(float64(x), -3, 0)), axis=-1)


def multi_head_attention(x, memory, weights, n_heads, keep=None):
    """Return (out, weights): (b, i, d_in), (b, j, d_in) -> (b, i, d_out), (b, h, i, j).

    ``weights`` is a dict like the one from ``sizes.weights``; ``keep`` is bool, True = may attend,
    and broadcasts to (b, h, i, j). Results are float64 for inputs of any dtype.
    """
    q, k, v = project(x, memory, weights, n_heads)
    context, attention_weights = attention(q, k, v, keep)
    W_o, b_o = float64(weights["W_o"]), float64(weights["b_o"])
    return merge_heads(context) @ W_o + b_o, attention_weights


def project(x, memory, weights, n_heads):
    """Return q, k, v split into heads: (b, h, i, d), (b, h, j, d), (b, h, j, d)."""
    weights = {name: float64(w) for name, w in weights.items()}
    q = split_heads(float64(x) @ weights["W_q"] + weights["b_q"], n_heads)
    k = split_heads(float64(memory) @ weights["W_k"] + weights["b_k"], n_heads)
    v = split_heads(float64(memory) @ weights["W_v"] + weights["b_v"], n_heads)
    return q, k, v


def attention_gradient(q, k, v, grad_out, keep=None):
    """Return the gradients of q, k and v for the upstream gradient ``grad_out`` (…, i, d_v).

    They are the gradients of sum(context * grad_out), each shaped like its input. With P the
    attention weights, G = grad_out and dP = G vᵀ, the gradient of the scores is
    dS = P * (dP - sum_j P dP); then dq = dS k / sqrt(d), dk = dSᵀ q / sqrt(d), dv = Pᵀ G.
    """
    q, k, v, grad_out = map(float64, (q, k, v, grad_out))
    _, p = attention(q, k, v, keep)
    d_p = np.einsum("...ic,...jc->...ij", grad_out, v)
    d_s = p * (d_p - (p * d_p).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return (np.einsum("...ij,...jd->...id", d_s, k), np.einsum("...ij,...id->...jd", d_s, q),
            np.einsum("...ij,...ic->...jc", p, grad_out))


def multi_head_attention_gradient(x, memory, weights, n_heads, grad_out, keep=None):
    """Return the gradients for the upstream gradient ``grad_out`` (b, i, d_out), a dict.

    They are the gradients of sum(out * grad_out). The keys are ``x``, ``memory`` and those of
    ``weights``. In self-attention (memory is x), the gradient of x is the sum of the first two.
    """
    x, memory, grad_out = map(float64, (x, memory, grad_out))
    weights = {name: float64(w) for name, w in weights.items()}
    q, k, v = project(x, memory, weights, n_heads)
    context = merge_heads(attention(q, k, v, keep)[0])
    grads = {"x": 0.0, "memory": 0.0, "b_o": grad_out.sum(axis=(0, 1)),
             "W_o": np.einsum("bie,bif->ef", context, grad_out)}
    d_context = split_heads(grad_out @ weights["W_o"].T, n_heads)
    d_heads = attention_gradient(q, k, v, d_context, keep)
    for name, side, d_head in zip("qkv", ("x", "memory", "memory"), d_heads, strict=True):
        d_side = merge_heads(d_head)
        grads[side] = grads[side] + d_side @ weights[f"W_{name}"].T
        grads[f"W_{name}"] = np.einsum("bie,bif->ef", x if side == "x" else memory, d_side)
        grads[f"b_{name}"] = d_side.sum(axis=(0, 1))
    return grads
