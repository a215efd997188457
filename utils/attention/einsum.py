"""Multi-head attention written with einsum and einops. Taught in chapter `einsum`.

The layer is the one of einops' documentation, https://einops.rocks/pytorch-examples.html; the
chapter lists what we changed. The letters differ from the rest of the course: l is i (query), t is
j (key), head is h. k and v are the dimensions of one head in keys and in values; their numbers may
differ.
"""

import math

import torch
from einops import rearrange
from torch import nn

from .. import checks
from .torch import masked_softmax


class MultiHeadAttentionNew(nn.Module):
    """Multi-head attention with residual and LayerNorm.

    ``d_model`` is the last axis of q, k, v and output. Each of ``n_head`` heads has ``d_k``
    dimensions in q and k, and ``d_v`` in v. ``dropout`` acts on the output of ``fc``, in training
    only. ``residual`` adds q to it, and ``layer_norm`` normalises the sum over the last axis; turn
    both off to compare with a program that has neither. Source:
    https://arxiv.org/abs/1706.03762, sections 3.1 and 3.2.2.
    """

    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1, *, residual=True, layer_norm=True):
        super().__init__()
        self.n_head, self.residual = n_head, residual
        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        self.fc = nn.Linear(n_head * d_v, d_model)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(d_model) if layer_norm else nn.Identity()
        nn.init.normal_(self.w_qs.weight, std=math.sqrt(2 / (d_model + d_k)))
        nn.init.normal_(self.w_ks.weight, std=math.sqrt(2 / (d_model + d_k)))
        nn.init.normal_(self.w_vs.weight, std=math.sqrt(2 / (d_model + d_v)))
        nn.init.xavier_normal_(self.fc.weight)

    def forward(self, q, k, v, mask=None):
        """Return (output, attn), (b, l, d_model) and (h, b, l, t).

        q is (b, l, d_model), k and v are (b, t, d_model). ``mask`` is bool, **True = drop** (the
        opposite of keep: pass ``~keep``), and broadcasts to (b, l, t). Rows of ``attn`` sum to 1,
        fully masked rows to 0. Raises ValueError or TypeError for sizes or a mask that do not fit.
        """
        keep = checks.drop(mask, q, k, v)  # True = may attend
        residual, n = q, self.n_head
        q = rearrange(self.w_qs(q), "b l (head k) -> head b l k", head=n)
        k = rearrange(self.w_ks(k), "b t (head k) -> head b t k", head=n)
        v = rearrange(self.w_vs(v), "b t (head v) -> head b t v", head=n)
        attn = torch.einsum("hblk,hbtk->hblt", q, k) / math.sqrt(q.shape[-1])
        attn = masked_softmax(attn, keep)
        output = torch.einsum("hblt,hbtv->hblv", attn, v)
        output = rearrange(output, "head b l v -> b l (head v)")
        output = self.dropout(self.fc(output))  # (b, l, d_model)
        if self.residual:
            output = output + residual
        return self.layer_norm(output), attn
