"""Attention by parts: states that merge, tiles, and a program that never holds n × n numbers.

All but ``partial`` and ``merge`` work on (b, h, i, d). For float32 and float64: sums are kept in
the inputs' dtype, and half precision is too coarse for that. Taught in chapter `flash`. Sources:
Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867 (the running maximum); Rabe and Staats
2021, https://arxiv.org/abs/2112.05682; Dao et al. 2022, https://arxiv.org/abs/2205.14135 (tiles,
and the weights computed again in the backward pass).
"""

import math

import torch
from torch.autograd.function import once_differentiable

from utils import checks
from utils.checks.causal import tiled_keep


def partial(q, k, v, keep=None):
    """Return the state of attention to these keys alone: (context, lse).

    (…, i, d), (…, j, d), (…, j, d_v) -> (…, i, d_v), (…, i). The context is averaged over the keys
    given; ``lse`` is the logarithm of the sum of exp(scores). A query that sees none of them has a
    context of zeros and an lse of -inf, the *empty state*. ``keep`` and errors as in
    ``utils.attention.torch.attention``.
    """
    keep = checks.keep(keep, q, k)
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (…, i, j)
    if keep is None:
        lse = scores.logsumexp(dim=-1, keepdim=True)
        return torch.exp(scores - lse) @ v, lse[..., 0]
    empty = ~keep.any(dim=-1, keepdim=True)  # (…, i, 1)
    scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0)
    lse = scores.logsumexp(dim=-1, keepdim=True)  # (…, i, 1)
    context = torch.exp(scores - lse) @ v
    context = context.masked_fill(empty, 0)
    return context, lse.masked_fill(empty, -math.inf)[..., 0]


def merge(a, b):
    """Return the state of attention to the keys of both: (context, lse), (context, lse) -> same.

    Contexts are (…, i, d_v), lse (…, i), as ``partial`` returns them. Order and grouping make no
    difference beyond rounding; the empty state (zeros, -inf) changes nothing, not by a bit.
    """
    (context_a, lse_a), (context_b, lse_b) = a, b
    top = torch.maximum(lse_a, lse_b)  # (…, i)
    top = top.masked_fill(top == -math.inf, 0)
    sum_a, sum_b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    total = sum_a + sum_b  # 1 to 2, or 0: both empty
    empty, total = total == 0, total.masked_fill(total == 0, 1)
    context = sum_a[..., None] * context_a + sum_b[..., None] * context_b
    lse = (top + total.log()).masked_fill(empty, -math.inf)
    return context / total[..., None], lse


def tiles(n_q, n_k, tile, causal=False):
    """Yield (rows, columns), slices, of the tiles of (i, j) that may be seen.

    Tiles are ``tile`` × ``tile``, smaller at the edges. ``causal``: none above the diagonal.
    """
    for i in range(0, n_q, tile):
        rows = slice(i, min(i + tile, n_q))
        for j in range(0, rows.stop if causal else n_k, tile):
            yield rows, slice(j, min(j + tile, n_k))


def cut(keep, causal, rows, columns, device=None):
    """Return the mask of one tile, bool (…, i, j), or None where it hides nothing.

    ``keep`` (…, i or 1, j or 1) or None is sliced where it is not broadcast; ``causal`` adds the
    triangle of a tile on the diagonal.
    """
    if keep is not None:
        i, j = (part if size > 1 else slice(None)
                for part, size in zip((rows, columns), keep.shape[-2:], strict=True))
        keep = keep[..., i, j]
    if not causal or rows != columns:
        return keep
    size = rows.stop - rows.start
    past = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return past if keep is None else keep & past


def forward_tiles(q, k, v, keep=None, causal=False, tile=256):
    """Return the state of attention to all keys, computed tile by tile: (context, lse).

    (b, h, i, d), (b, h, j, d), (b, h, j, d_v) -> (b, h, i, d_v), (b, h, i). ``keep`` is a bool
    tensor or None. Written into, so no gradient passes backward: see ``TiledAttention``.
    """
    context = v.new_zeros(*q.shape[:3], v.shape[3])  # (b, h, i, d_v)
    lse = q.new_full(q.shape[:3], -math.inf)  # (b, h, i)
    for i, j in tiles(q.shape[2], k.shape[2], tile, causal):
        part = cut(keep, causal, i, j, q.device)
        new = partial(q[:, :, i], k[:, :, j], v[:, :, j], part)
        old = context[:, :, i], lse[:, :, i]
        context[:, :, i], lse[:, :, i] = merge(old, new)
    return context, lse


def backward_tiles(g_out, q, k, v, keep, causal, tile, context, lse):
    """Return the gradients of q, k and v; each tile's weights are computed again from lse.

    g_out (b, h, i, d_v): the gradient of the context; context and lse as ``forward_tiles`` returned
    them for the same arguments.
    """
    scale = 1 / math.sqrt(q.shape[3])
    lse = lse.masked_fill(lse == -math.inf, math.inf)  # exp(… - inf) = 0
    mean = (g_out * context).sum(dim=3, keepdim=True)  # (b, h, i, 1)
    g_q, g_k, g_v = map(torch.zeros_like, (q, k, v))
    for i, j in tiles(q.shape[2], k.shape[2], tile, causal):
        scores = q[:, :, i] @ k[:, :, j].mT * scale
        part = cut(keep, causal, i, j, q.device)
        if part is not None:
            scores = scores.masked_fill(~part, -math.inf)
        weights = torch.exp(scores - lse[:, :, i, None])
        g_weights = g_out[:, :, i] @ v[:, :, j].mT
        g_scores = weights * (g_weights - mean[:, :, i]) * scale
        g_q[:, :, i] += g_scores @ k[:, :, j]
        g_k[:, :, j] += g_scores.mT @ q[:, :, i]
        g_v[:, :, j] += weights.mT @ g_out[:, :, i]
    return g_q, g_k, g_v


class TiledAttention(torch.autograd.Function):
    """Attention whose backward pass computes the weights again instead of keeping them.

    ``apply(q, k, v, keep, causal, tile)``, as ``tiled_attention``. It keeps q, k, v, the context
    and lse: of n scores in a row, one number. Not differentiable twice.
    """

    @staticmethod
    def forward(ctx, q, k, v, keep, causal, tile):
        """Return the context (b, h, i, d_v)."""
        context, lse = forward_tiles(q, k, v, keep, causal, tile)
        ctx.save_for_backward(q, k, v, keep, context, lse)
        ctx.options = causal, tile
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx, g_out):
        """Return the gradients of q, k and v, and None for each other argument."""
        q, k, v, keep, context, lse = ctx.saved_tensors
        grad = backward_tiles(g_out, q, k, v, keep, *ctx.options, context, lse)
        return *grad, None, None, None


def tiled_attention(q, k, v, keep=None, causal=False, tile=256):
    """Return the context of ``attention``, holding ``tile`` × ``tile`` scores of a head at a time.

    (b, h, i, d), (b, h, j, d), (b, h, j, d_v) -> (b, h, i, d_v), and no more in the backward pass.
    ``keep`` is bool, True = may attend, broadcasts to (b, h, i, j) and is cut tile by tile, never
    expanded; ``causal=True`` adds the causal mask and leaves out the tiles above the diagonal. A
    query that sees nothing gets zeros. Raises as ``flash_checks.tiled`` does.
    """
    keep = tiled_keep(q, k, v, keep, causal, tile)
    return TiledAttention.apply(q, k, v, keep, causal, tile)
