"""Attention in tiles, whose results are merged: it never holds all n × n scores at once.

All functions but ``partial`` and ``merge`` take (b, h, i, d). They accumulate in the dtype of the
inputs: use float32 or float64, because half precision is not accurate enough. Taught in chapter
`flash`. Sources:
Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867 (the running maximum); Rabe and Staats
2021, https://arxiv.org/abs/2112.05682; Dao et al. 2022, https://arxiv.org/abs/2205.14135 (tiles,
and the weights computed again in the backward pass).
"""

import math

import torch
from torch.autograd.function import once_differentiable

from .. import checks
from ..checks.causal import tiled_keep


def partial(q, k, v, keep=None):
    """Return the state of attention to these keys alone: (context, lse).

    (…, i, d), (…, j, d), (…, j, d_v) -> (…, i, d_v), (…, i). The context is the weighted mean of
    the given values; ``lse`` is the logarithm of the sum of exp(scores). A fully masked row has a
    context of zeros and an lse of -inf, the *empty state*. ``keep`` and errors as in
    ``utils.attention.torch.attention``.
    """
    return partial_state(q, k, v, checks.keep(keep, q, k, v))


def partial_state(q, k, v, keep):
    """Return the state as ``partial`` does, without checking ``keep``."""
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
    """Return the state of attention to the keys of both states a and b.

    A state is (context, lse), (…, i, d_v) and (…, i), as ``partial`` returns it. The order and the
    grouping of merges change the result only by rounding; merging the empty state (zeros, -inf)
    does not change it at all.
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
    """Yield (rows, columns), two slices, of each tile that is needed.

    Tiles of (i, j) are ``tile`` × ``tile``, smaller at the edges. If ``causal``, tiles above the
    diagonal are left out.
    """
    for i in range(0, n_q, tile):
        rows = slice(i, min(i + tile, n_q))
        for j in range(0, rows.stop if causal else n_k, tile):
            yield rows, slice(j, min(j + tile, n_k))


def cut(keep, causal, rows, columns, device=None):
    """Return the mask of one tile, bool (…, i, j), or None.

    ``keep`` (…, i or 1, j or 1) or None is sliced along the axes that are not broadcast. If
    ``causal``, the causal mask is added in tiles on the diagonal. None means that no mask is
    needed.
    """
    if keep is not None:
        i = rows if keep.shape[-2] > 1 else slice(None)
        j = columns if keep.shape[-1] > 1 else slice(None)
        keep = keep[..., i, j]
    if not causal or rows != columns:
        return keep
    size = rows.stop - rows.start
    past = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return past if keep is None else keep & past


def forward_tiles(q, k, v, keep=None, causal=False, tile=256):
    """Return (context, lse) of attention to all keys, tile by tile.

    (b, h, i, d), (b, h, j, d), (b, h, j, d_v) -> (b, h, i, d_v), (b, h, i). ``keep`` is a bool
    tensor that fits, or None. Results are written in place, so autograd cannot differentiate it:
    use ``TiledAttention``.
    """
    context = v.new_zeros(*q.shape[:3], v.shape[3])  # (b, h, i, d_v)
    lse = q.new_full(q.shape[:3], -math.inf)  # (b, h, i)
    for i, j in tiles(q.shape[2], k.shape[2], tile, causal):
        part = cut(keep, causal, i, j, q.device)
        new = partial_state(q[:, :, i], k[:, :, j], v[:, :, j], part)
        old = context[:, :, i], lse[:, :, i]
        context[:, :, i], lse[:, :, i] = merge(old, new)
    return context, lse


def backward_tiles(grad_out, q, k, v, keep, causal, tile, context, lse):
    """Return the gradients of q, k and v; recompute the weights from lse.

    grad_out (b, h, i, d_v) is the gradient of the context; context and lse are those that
    ``forward_tiles`` returned for the same arguments.
    """
    scale = 1 / math.sqrt(q.shape[3])
    lse = lse.masked_fill(lse == -math.inf, math.inf)  # exp(… - inf) = 0
    mean = (grad_out * context).sum(dim=3, keepdim=True)  # (b, h, i, 1)
    g_q, g_k, g_v = map(torch.zeros_like, (q, k, v))
    for i, j in tiles(q.shape[2], k.shape[2], tile, causal):
        scores = q[:, :, i] @ k[:, :, j].mT * scale
        part = cut(keep, causal, i, j, q.device)
        if part is not None:
            scores = scores.masked_fill(~part, -math.inf)
        weights = torch.exp(scores - lse[:, :, i, None])
        g_weights = grad_out[:, :, i] @ v[:, :, j].mT
        g_scores = weights * (g_weights - mean[:, :, i]) * scale
        g_q[:, :, i] += g_scores @ k[:, :, j]
        g_k[:, :, j] += g_scores.mT @ q[:, :, i]
        g_v[:, :, j] += weights.mT @ grad_out[:, :, i]
    return g_q, g_k, g_v


class TiledAttention(torch.autograd.Function):
    """Attention that recomputes the weights in the backward pass.

    ``apply(q, k, v, keep, causal, tile)`` takes what ``tiled_attention`` takes, checked. For the
    backward pass it stores q, k, v, the context and lse, one number for each row of scores. It
    cannot be differentiated twice.
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
    def backward(ctx, grad_out):
        """Return the gradients of q, k and v; None for other arguments."""
        *inputs, context, lse = ctx.saved_tensors
        grad = backward_tiles(grad_out, *inputs, *ctx.options, context, lse)
        return *grad, None, None, None


def tiled_attention(q, k, v, keep=None, causal=False, tile=256):
    """Return the context of ``attention`` with few scores held at a time.

    (b, h, i, d), (b, h, j, d), (b, h, j, d_v) -> (b, h, i, d_v). Forward and backward pass hold
    ``tile`` × ``tile`` scores of each head at a time. ``keep`` is bool, True = may attend, and
    broadcasts to (b, h, i, j); it is sliced and never expanded. ``causal=True`` adds the causal
    mask and leaves out the tiles above the diagonal. Fully masked rows are zero. Raises as
    ``checks.causal.tiled_keep`` does.
    """
    keep = tiled_keep(q, k, v, keep, causal, tile)
    return TiledAttention.apply(q, k, v, keep, causal, tile)
