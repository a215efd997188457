"""A slow, readable stand-in for the fused kernel, used in our tests and on old GPUs."""
from __future__ import annotations

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["sdpa_reference", "repeat_kv"]


def _causal_bias(n_q: int, n_k: int, like: Tensor) -> Tensor:
    bias = torch.zeros(n_q, n_k, dtype=like.dtype, device=like.device)
    keep = torch.ones(n_q, n_k, dtype=torch.bool, device=like.device).tril()
    return bias.masked_fill(~keep, float("-inf"))


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """(b, h_kv, n, d) -> (b, h_kv * n_rep, n, d)"""
    return x if n_rep == 1 else x.repeat_interleave(n_rep, dim=1)


def sdpa_reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    training: bool = True,
) -> Tensor:
    """Mirrors ``F.scaled_dot_product_attention``; computes in float32.

    attn_mask: bool (True takes part) or float, added to the logits.
    """
    if attn_mask is not None and is_causal:
        raise ValueError("give either attn_mask or is_causal")

    if scale is None:
        scale = 1.0 / math.sqrt(query.size(-1))

    dtype = query.dtype
    logits = (query.float() * scale) @ key.float().mT

    if is_causal:
        logits = logits + _causal_bias(query.size(-2), key.size(-2), logits)
    elif attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            logits = logits.masked_fill(attn_mask.logical_not(), float("-inf"))
        else:
            logits = logits + attn_mask.float()

    probs = torch.softmax(logits, dim=-1)
    probs = F.dropout(probs, p=dropout_p, training=training)
    return (probs @ value.float()).to(dtype)


def _check(rtol=1e-4):
    q, k, v = (torch.randn(2, 4, 12, 16) for _ in range(3))
    for causal in (False, True):
        want = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        torch.testing.assert_close(sdpa_reference(q, k, v, is_causal=causal), want,
                                   rtol=rtol, atol=1e-5)


if __name__ == "__main__":
    _check()
    print("ok")
