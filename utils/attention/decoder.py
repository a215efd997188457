"""The attention of a decoder: no output depends on a later token. Taught in `decoder_mask`.

``w_q w_k w_v`` and ``w_o`` are layers that map the last axis, such as ``nn.Linear``. The caller
creates them once and passes them, so that they can be trained.
"""

import torch

from .. import checks
from .heads import merge_heads, split_heads
from .torch import attention


def causal_mask(seq):
    """Return the causal mask of ``seq`` (b, i, …), bool (i, i).

    True = may attend. The mask is on the device of ``seq``.
    """
    seq_len = seq.size(1)
    return torch.ones(seq_len, seq_len, dtype=torch.bool, device=seq.device).tril()


def multi_head_attention(query, key, value, w_q, w_k, w_v, w_o, head, mask=None):
    """Return the output of multi-head attention, (b, i, d_out).

    query is (b, i, d_in), key and value are (b, j, d_in). ``mask`` is bool, True = may attend, and
    broadcasts to (b, h, i, j); in cross-attention it masks the padding of ``key``. The context of a
    fully masked row is zero. Raises ValueError or TypeError for heads or a mask that do not fit.
    Source:
    https://arxiv.org/abs/1706.03762, section 3.2.2.
    """
    query = split_heads(w_q(query), head)  # (b, h, i, d)
    key = split_heads(w_k(key), head)  # (b, h, j, d)
    value = split_heads(w_v(value), head)
    out, _ = attention(query, key, value, mask)  # (b, h, i, d)
    return w_o(merge_heads(out))


def masked_multi_head_self_attention(x, w_q, w_k, w_v, w_o, head, mask=None):
    """Return the output of causal self-attention, (b, i, d_out).

    x is (b, i, d_in). ``mask`` (bool, True = may attend, broadcasts to (b, h, i, i)) can mask
    further keys, such as padding; later tokens stay masked. Raises as ``multi_head_attention``
    does. Source: https://arxiv.org/abs/1706.03762, section 3.2.3.
    """
    query = split_heads(w_q(x), head)  # (b, h, i, d)
    key = split_heads(w_k(x), head)
    value = split_heads(w_v(x), head)
    mask = checks.keep(mask, query, key)
    mask = causal_mask(x) if mask is None else causal_mask(x) & mask
    out, _ = attention(query, key, value, mask)  # (b, h, i, d)
    return w_o(merge_heads(out))
