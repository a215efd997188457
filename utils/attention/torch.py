"""Attention in PyTorch.

Chapter `masks` teaches ``attention`` and ``masked_softmax``, `per_head_loops` teaches
``attention_per_head``, `transpose_qkv` teaches ``additive_attention`` (in TensorFlow), and
`packed_and_fused` teaches the rest.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .. import checks
from ..checks.causal import square, with_causal
from .heads import merge_heads, split_heads


def masked_softmax(scores, keep=None):
    """Return softmax over the keys that are not masked, (…, i, j).

    ``scores`` are (…, i, j). ``keep`` is a bool tensor, True = may attend, and broadcasts to the
    scores. Fully masked rows are zero, and so are their gradients.
    """
    if keep is None:
        return scores.softmax(dim=-1)
    empty = ~checks.boolean(keep).any(dim=-1, keepdim=True)  # (…, i, 1)
    scores = scores.masked_fill(~keep, -math.inf).masked_fill(empty, 0)
    return scores.softmax(dim=-1).masked_fill(empty, 0)


def attention(q, k, v, keep=None):
    """Return (context, weights), (…, i, d_v) and (…, i, j).

    q is (…, i, d), k is (…, j, d), v is (…, j, d_v). ``keep`` is bool, True = may attend, and
    broadcasts to (…, i, j). Masked values must be finite, because 0 times NaN is NaN. Raises
    ValueError or TypeError for sides or a mask that do not fit. Source:
    https://arxiv.org/abs/1706.03762, equation 1.
    """
    keep = checks.keep(keep, q, k, v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (…, i, j)
    weights = masked_softmax(scores, keep)
    return weights @ v, weights


def additive_attention(q, k, v, W_q, W_k, w_v, keep=None):
    """Return (context, weights) with the scores w_v · tanh(q W_q + k W_k).

    (…, i, d_q), (…, j, d_k), (…, j, d_v) -> (…, i, d_v), (…, i, j). ``W_q`` (d_q, hidden), ``W_k``
    (d_k, hidden), ``w_v`` (hidden,); ``keep`` and errors as in ``attention``. Source:
    https://arxiv.org/abs/1409.0473, appendix A.1.2.
    """
    q, k = q @ W_q, k @ W_k  # (…, i, hidden), (…, j, hidden)
    keep = checks.keep(keep, q, k, v)
    scores = torch.tanh(q[..., :, None, :] + k[..., None, :, :]) @ w_v  # (…, i, j)
    weights = masked_softmax(scores, keep)
    return weights @ v, weights


def attention_per_head(q, k, v, n_heads, keep=None):
    """Return (context, weights), computed one head after the other.

    (b, i, e), (b, j, e), (b, j, e) -> (b, i, e), (b, h, i, j). q, k and v are projected already.
    Head h reads their dimensions h d to (h + 1) d, and writes these dimensions of the context.
    ``keep`` is bool, True = may attend, and broadcasts to (b, h, i, j). Raises ValueError or
    TypeError for sizes or a mask that do not fit.
    """
    d_head, keep = checks.per_head(q, k, v, n_heads, keep)
    contexts, weights = [], []
    for h in range(n_heads):
        columns = slice(h * d_head, (h + 1) * d_head)
        context_h, weights_h = attention(
            q[..., columns], k[..., columns], v[..., columns], keep[:, h])
        contexts.append(context_h)  # (b, i, d)
        weights.append(weights_h)  # (b, i, j)
    return torch.cat(contexts, dim=-1), torch.stack(weights, dim=1)


def sdpa_with_zeros(q, k, v, keep=None, causal=False, **options):
    """Call PyTorch's SDPA; the context of a fully masked row is zero.

    (b, h, i, d), (b, h, j, d), (b, h, j, d_v) -> (b, h, i, d_v). ``keep`` is None or a bool tensor
    that broadcasts to (b, h, i, j); it is not checked. ``causal=True`` adds the causal mask, which
    is not stored if there is no other mask. Raises ValueError or TypeError for sides that do not
    fit, and ValueError for ``causal`` with n_q != n_k.
    """
    checks.sides(q, k, v, grouped=True)
    if causal:
        square(q, k)  # equally many queries and keys
    if keep is None:
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, **options)
    keep = with_causal(keep, causal, q, k)
    empty = ~keep.any(dim=-1, keepdim=True)  # (…, i, 1)
    context = F.scaled_dot_product_attention(
        q.masked_fill(empty, 0), k, v, attn_mask=keep | empty, **options)
    return context.masked_fill(empty, 0)


def fused_attention(q, k, v, keep=None, causal=False, dropout=0.0):
    """Return the context of ``attention`` without storing the weights.

    (b, h, i, d), (b, h, j, d), (b, h, j, d_v) -> (b, h, i, d_v), by PyTorch's
    `scaled_dot_product_attention`. (On a CPU, that does store the weights if there is dropout, or
    if d_v is not d.) Masked keys and values must be finite, and so must all scores of a query that
    may attend to some key: the kernel adds -inf to masked scores, and inf - inf is NaN. ``keep`` as
    in ``attention``; ``causal=True`` adds the causal mask. ``dropout`` is the probability with
    which a weight is dropped; pass 0 in evaluation. Raises as ``attention`` does, and ValueError
    for ``causal`` with n_q != n_k.
    """
    keep = checks.keep(keep, q, k, v)
    return sdpa_with_zeros(q, k, v, keep, causal, dropout_p=dropout)


def packed_projection(linear, x, memory=None):
    """Return q, k and v by one nn.Linear, (b, i, e), (b, j, e), (b, j, e).

    ``linear`` packs the three projections: its output is [q | k | v], (b, i, 3 e). ``memory``
    defaults to x. Raises ValueError or TypeError for inputs that do not fit ``linear``.
    """
    checks.inputs(linear, x, memory)
    if memory is None:
        return linear(x).chunk(3, dim=-1)
    w_q, w_k, w_v = linear.weight.chunk(3)  # (e, d_in) each
    b_q, b_k, b_v = None, None, None
    if linear.bias is not None:
        b_q, b_k, b_v = linear.bias.chunk(3)
    q = F.linear(x, w_q, b_q)
    k = F.linear(memory, w_k, b_k)
    v = F.linear(memory, w_v, b_v)
    return q, k, v


class MultiHeadAttention(nn.Module):
    """Multi-head attention, (b, i, d_in), (b, j, d_in) -> (b, i, d_out).

    ``d_in`` and ``d_out`` default to ``d_model``. ``W_qkv`` packs the three projections as [q | k |
    v]; ``dropout`` acts on the attention weights, in training only. Raises ValueError when n_heads
    does not divide d_model. Source: https://arxiv.org/abs/1706.03762, section 3.2.2.
    """

    def __init__(self, d_model, n_heads, dropout=0.0, bias=True, d_in=None, d_out=None):
        super().__init__()
        checks.layer(d_model, n_heads, dropout, d_in, d_out)
        self.n_heads = n_heads
        self.dropout = dropout
        self.W_qkv = nn.Linear(d_in or d_model, 3 * d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_out or d_model, bias=bias)

    def project(self, x, memory=None):
        """Return q, k and v, split into heads, (b, h, i or j, d)."""
        qkv = packed_projection(self.W_qkv, x, memory)
        return [split_heads(side, self.n_heads) for side in qkv]

    def forward(self, x, memory=None, keep=None, causal=False, return_weights=False):
        """Return out, or (out, weights) with weights (b, h, i, j).

        ``memory`` defaults to x, which is self-attention. ``keep`` is bool, True = may attend, and
        broadcasts to (b, h, i, j); ``causal=True`` adds the causal mask. The weights are those
        before dropout; ``return_weights`` does not change out. Raises as ``fused_attention`` does.
        """
        q, k, v = self.project(x, memory)
        keep = checks.keep(keep, q, k, v)
        dropout = self.dropout if self.training else 0.0
        context = sdpa_with_zeros(q, k, v, keep, causal, dropout_p=dropout)
        out = self.W_o(merge_heads(context))  # (b, i, e)
        if not return_weights:
            return out
        return out, attention(q, k, v, with_causal(keep, causal, q, k))[1]
