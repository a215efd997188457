"""Several heads of q that share one head of k and v. Taught in chapter `fewer_heads`.

Head h of q reads head h // group of k and v. Neither is ever repeated in memory. Sources: one head
for all, https://arxiv.org/abs/1911.02150; groups, https://arxiv.org/abs/2305.13245.
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from utils import grouped_checks
from utils.cache import CausalAttention
from utils.heads import split_heads
from utils.language_model import RotaryAttention
from utils.torch_attention import fused_attention, with_causal


def folded_attention(q, k, v, keep=None):
    """Return the context; the heads that share keys ask as more queries of one head.

    (b, h, i, d), (b, h_kv, j, d), (b, h_kv, j, d_v) -> (b, h, i, d_v). k and v are read as they
    are; a ``keep`` for i > 1 queries is repeated for each head of a group. ``keep`` (bool, True =
    may attend) broadcasts to (b, h, i, j). Raises ValueError for sizes that do not fit.
    """
    group, (batch, n_heads, n_q, d) = grouped_checks.shared(q, k, v), q.shape
    kv_heads, n_k = k.shape[1:3]
    keep = with_causal(keep, False, q, k)
    if keep is not None:
        keep = keep.expand(batch, n_heads, n_q, n_k)
        keep = keep.reshape(batch, kv_heads, group * n_q, n_k)
    q = q.reshape(batch, kv_heads, group * n_q, d)
    context = fused_attention(q, k, v, keep)  # (b, h_kv, group i, d_v)
    return context.reshape(batch, n_heads, n_q, v.shape[-1])


def grouped_attention(q, k, v, keep=None, causal=False):
    """Return the context of ``fused_attention`` where k and v may have fewer heads than q.

    (b, h, i, d), (b, h_kv, j, d), (b, h_kv, j, d_v) -> (b, h, i, d_v). A single query, as in
    decoding, is folded; several go to PyTorch's kernel, which on a CPU copies k and v only when d_v
    is not d. ``keep``, ``causal`` and errors as for ``fused_attention``, and those of the sizes.
    """
    grouped_checks.shared(q, k, v)
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_q == 1:
        return folded_attention(q, k, v, with_causal(keep, causal, q, k))
    if keep is None and (not causal or n_q == n_k):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    keep = with_causal(keep, causal, q, k)
    empty = ~keep.any(dim=-1, keepdim=True)  # (…, i, 1)
    context = F.scaled_dot_product_attention(
        q.masked_fill(empty, 0), k, v, attn_mask=keep | empty, enable_gqa=True)
    return context.masked_fill(empty, 0)


class GroupedAttention(CausalAttention):
    """``CausalAttention`` with fewer heads of k and v than of q, (b, i, e) -> (b, i, e).

    ``W_qkv`` holds [q | k | v], k and v narrower. Raises ValueError when n_kv_heads does not divide
    n_heads, and as ``CausalAttention`` does.
    """

    attend = staticmethod(grouped_attention)

    def __init__(self, d_model, n_heads, n_kv_heads, window=None, bias=True):
        super().__init__(d_model, n_heads, window, bias)
        grouped_checks.group(n_heads, n_kv_heads)
        kv_width = n_kv_heads * (d_model // n_heads)
        self.n_kv_heads, self.widths = n_kv_heads, [d_model, kv_width, kv_width]
        self.W_qkv = nn.Linear(d_model, sum(self.widths), bias=bias)

    def project(self, x):
        """Return q, k, v split into heads: (b, h, i, d), (b, h_kv, i, d), (b, h_kv, i, d)."""
        q, k, v = self.W_qkv(x).split(self.widths, dim=-1)
        return (split_heads(q, self.n_heads), split_heads(k, self.n_kv_heads),
                split_heads(v, self.n_kv_heads))


class GroupedRotary(GroupedAttention):
    """``language_model.RotaryAttention`` with fewer heads of k and v, (b, i, e) -> (b, i, e)."""

    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__(d_model, n_heads, n_kv_heads, bias=False)
        self.gain = nn.Parameter(torch.full((n_heads, 1, 1), 2.0))

    heads_at = RotaryAttention.heads_at


def regrouped(model, n_kv_heads, pool):
    """Return a copy of a ``LanguageModel`` whose heads share ``n_kv_heads`` heads of k and v.

    ``pool`` makes the matrices of the shared heads from those of a group, (h_kv, group, d, e) ->
    (h_kv, d, e); all else is kept. Raises ValueError when n_kv_heads does not divide the heads.
    """
    model = copy.deepcopy(model)
    for block in model.blocks:
        old, d_model = block.attention, block.attention.W_o.in_features
        q, k, v = old.W_qkv.weight.detach().chunk(3)  # (e, e) each, rows: head by head
        new = GroupedRotary(d_model, old.n_heads, n_kv_heads).to(q)
        shape = (n_kv_heads, old.n_heads // n_kv_heads, d_model // old.n_heads, d_model)
        k, v = (pool(side.view(shape)).flatten(0, 1) for side in (k, v))
        weights = {"W_qkv.weight": torch.cat([q, k, v]), "W_o.weight": old.W_o.weight.detach(),
                   "gain": old.gain.detach()}
        new.load_state_dict(weights)
        block.attention = new.train(model.training)
    return model
