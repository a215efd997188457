"""Attention with the sequence as the first axis, in labml.ai's style. Taught in `sequence_first`.

Inputs are (seq, batch, d_model), heads (seq, batch, head, d), scores and weights (i, j, b, h), and
a mask is (i, j, b), True or 1 = may attend. Names and signatures are from
https://nn.labml.ai/transformers/mha.html.
"""

import math

import torch
from torch import nn

from .. import checks
from .positions import alibi_bias


class PrepareForMultiHeadAttention(nn.Module):
    """Project and split into heads, (…, d_model) -> (…, heads, d_k)."""

    def __init__(self, d_model, heads, d_k, bias):
        super().__init__()
        self.linear = nn.Linear(d_model, heads * d_k, bias=bias)
        self.heads, self.d_k = heads, d_k

    def forward(self, x):
        """Return the heads of x, (…, d_model) -> (…, heads, d_k)."""
        return self.linear(x).view(*x.shape[:-1], self.heads, self.d_k)


def masked_softmax(scores, mask=None):
    """Return softmax over the keys that are not masked, (i, j, b, h).

    ``mask`` is a bool tensor, True = may attend, and broadcasts to the scores. Fully masked rows
    are zero, and so are their gradients.
    """
    if mask is None:
        return scores.softmax(dim=1)
    empty = ~mask.any(dim=1, keepdim=True)  # (i, 1, b, h)
    scores = scores.masked_fill(~mask, -math.inf).masked_fill(empty, 0)
    return scores.softmax(dim=1).masked_fill(empty, 0)


class MultiHeadAttention(nn.Module):
    """Multi-head attention, (i, b, e), (j, b, e), (j, b, e) -> (i, b, e).

    e is d_model. ``bias`` switches the biases of query and key; value and output always have one.
    ``dropout_prob`` acts on the attention weights, in training only. After a call, ``attn`` holds
    the attention weights (i, j, b, h) before dropout, detached. Override ``get_scores`` for other
    scores. Raises ValueError when heads does not divide d_model. Source:
    https://nn.labml.ai/transformers/mha.html
    """

    def __init__(self, heads, d_model, dropout_prob=0.1, bias=True):
        super().__init__()
        d_k = self.d_k = checks.divisible(d_model, heads)
        self.heads, self.scale = heads, 1 / math.sqrt(d_k)
        self.query = PrepareForMultiHeadAttention(d_model, heads, d_k, bias)
        self.key = PrepareForMultiHeadAttention(d_model, heads, d_k, bias)
        self.value = PrepareForMultiHeadAttention(d_model, heads, d_k, True)
        self.output = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout_prob)
        self.attn = None

    def get_scores(self, query, key):
        """Return the scores before scaling, (i, j, b, h).

        query is (i, b, h, d), key is (j, b, h, d).
        """
        return torch.einsum("ibhd,jbhd->ijbh", query, key)

    def prepare_mask(self, mask, query_shape, key_shape):
        """Return the mask as bool, (1 or i, j, 1 or b, 1).

        ``mask`` is (1 or i, j, 1 or b), True or 1 = may attend. The shapes are those of query and
        key, (i, b, e) and (j, b, e). Raises TypeError for numbers other than 0 and 1, ValueError
        for a shape that does not fit.
        """
        mask = checks.sequence_mask(mask, query_shape, key_shape)
        device = self.output.weight.device
        return torch.as_tensor(mask, device=device).unsqueeze(-1)

    def forward(self, *, query, key, value, mask=None):
        """Return the output (i, b, e).

        ``mask`` as in ``prepare_mask``; with None, no key is masked. In a fully masked row, the
        result is the bias of ``output``. Raises ValueError when the shapes of the inputs do not
        fit.
        """
        checks.sequence_first(query, key, value, self.output.in_features)
        if mask is not None:
            mask = self.prepare_mask(mask, query.shape, key.shape)
        query, key = self.query(query), self.key(key)
        value = self.value(value)  # (j, b, h, d)
        scores = self.get_scores(query, key) * self.scale  # (i, j, b, h)
        attn = masked_softmax(scores, mask)
        self.attn = attn.detach()  # before dropout
        x = torch.einsum("ijbh,jbhd->ibhd", self.dropout(attn), value)
        return self.output(x.flatten(-2))  # (i, b, e)


class AlibiMultiHeadAttention(MultiHeadAttention):
    """``MultiHeadAttention`` with ALiBi: distance reduces a score.

    ``align`` as in ``masks.causal``; it is required only when n_q != n_k. Other attributes and
    arguments are those of ``MultiHeadAttention``. Source: Press, Smith and Lewis 2021,
    https://arxiv.org/abs/2108.12409, section 3.
    """

    def __init__(self, *args, align=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.align = align

    def get_scores(self, query, key):
        """Return the scores before scaling, with the bias divided by it."""
        scores = super().get_scores(query, key)  # (i, j, b, h)
        bias = alibi_bias(self.heads, len(query), len(key), self.align)
        bias = torch.as_tensor(bias).to(scores).permute(1, 2, 0)  # (i, j, h)
        return scores + bias[:, :, None] / self.scale
