"""A decoder's attention: nothing looks ahead. Taught in chapter `decoder_mask`.

``w_q w_k w_v`` and ``w_o`` are layers that map the last axis, such as ``nn.Linear``. They are given
by the caller, so that whoever trains them has made them once.
"""

import torch

from utils import checks
from utils.attention.heads import merge_heads, split_heads
from utils.attention.torch import attention


def causal_mask(seq):
    """Return a bool tensor (i, i), True = may attend: each place of ``seq`` (b, i, …) sees 0 .. i.

    It lies on the device of ``seq``.
    """
    seq_len = seq.size(1)
    return torch.ones(seq_len, seq_len, dtype=torch.bool, device=seq.device).tril()


def multi_head_attention(query, key, value, w_q, w_k, w_v, w_o, head, mask=None):
    """Return out of ``head`` heads, (b, i, d_in), (b, j, d_in), (b, j, d_in) -> (b, i, d_out).

    ``mask`` is bool, True = may attend, and broadcasts to (b, h, i, j); a query that may attend to
    nothing gets what w_o makes of zeros. In cross-attention it is the padding of ``key``. Raises
    ValueError or TypeError for heads or a mask that do not fit. Source:
    https://arxiv.org/abs/1706.03762, section 3.2.2.
    """
    query = split_heads(w_q(query), head)  # (b, h, i, d)
    key = split_heads(w_k(key), head)  # (b, h, j, d)
    value = split_heads(w_v(value), head)
    out, _ = attention(query, key, value, mask)
    return w_o(merge_heads(out))


def masked_multi_head_self_attention(x, w_q, w_k, w_v, w_o, head, mask=None):
    """Return out, (b, i, d_in) -> (b, i, d_out): no place hears a later one.

    ``mask`` (bool, True = may attend, broadcasts to (b, h, i, i)) forbids more, such as padding; it
    cannot allow the future. Raises as ``multi_head_attention`` does. Source:
    https://arxiv.org/abs/1706.03762, section 3.2.3.
    """
    query, key, value = (split_heads(w(x), head) for w in (w_q, w_k, w_v))
    mask = checks.keep(mask, query, key)
    mask = causal_mask(x) if mask is None else causal_mask(x) & mask
    out, _ = attention(query, key, value, mask)
    return w_o(merge_heads(out))
