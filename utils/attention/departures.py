"""What today's models change in the one equation, one function for each change (PyTorch).

Sources are the models of transformers 5.23.0, in
https://github.com/huggingface/transformers/tree/v5.23.0/src/transformers/models. Taught in chapter
`todays_models`; `utils.models.open_models` says which model makes which change.
"""

import math

import torch

from .. import checks
from ..checks import departures as departure_checks
from .torch import masked_softmax


def soft_capped(scores, cap):
    """Return cap * tanh(scores / cap), between -cap and cap, (…, i, j).

    Mask the result, not ``scores``: tanh would make -inf finite. Raises ValueError unless cap is
    positive and finite. Source: gemma2/modeling_gemma2.py, ``eager_attention_forward``.
    """
    departure_checks.cap(scores, cap)
    return cap * torch.tanh(scores / cap)


def attention_with_sink(q, k, v, sink, keep=None):
    """Return (context, weights) where each head may also attend to nothing.

    (b, h, i, d), (b, h, j, d), (b, h, j, d_v) -> (b, h, i, d_v), (b, h, i, j). ``sink``, (h,), is a
    learned score that joins the softmax of every query of a head: it is not masked, not scaled, and
    has no value, so the weights of a query sum to less than 1. A sink of -inf has no effect.
    ``keep`` is bool, True = may attend, and broadcasts to (b, h, i, j); a fully masked row gives
    zeros. Raises ValueError or TypeError for sizes or a mask that do not fit. Source:
    gpt_oss/modeling_gpt_oss.py, ``eager_attention_forward``.
    """
    keep = departure_checks.sink(q, k, v, sink, keep)
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (b, h, i, j)
    column = sink.to(scores)[:, None, None].expand(*scores.shape[:-1], 1)
    keep = torch.ones_like(scores, dtype=bool) if keep is None else keep.expand(scores.shape)
    keep = torch.cat((keep, ~column.isneginf()), dim=-1)  # (b, h, i, j + 1)
    weights = masked_softmax(torch.cat((scores, column), dim=-1), keep)[..., :-1]
    return weights @ v, weights


def gated(context, gate):
    """Return context * sigmoid(gate), (…, d); both have one shape.

    ``gate`` is a projection of the input x, like q. Source: qwen3_next/modeling_qwen3_next.py,
    ``Qwen3NextAttention``.
    """
    departure_checks.gate(context, gate)
    return context * torch.sigmoid(gate)


def qk_norm(x, gain=None, whole=False, plus_one=False, eps=1e-6):
    """Return q or k divided by the root of its mean square, times a gain.

    x is (b, h, i, d), and so is the result. The mean is over the d dimensions of each head or, if
    ``whole``, over all h * d of a token. ``gain`` is (d,), the same for all heads, or (h * d,) if
    ``whole``; None = 1. With ``plus_one`` the factor is 1 + gain, as Gemma 3 and Qwen3-Next store
    it. Raises ValueError or TypeError for a gain that does not fit. Sources:
    qwen3/modeling_qwen3.py (per head), olmo3/modeling_olmo3.py (whole), gemma3/modeling_gemma3.py
    (1 + gain), llama4/modeling_llama4.py (no gain; its class is named L2Norm, but it divides by the
    root of the *mean* square, too).
    """
    heads = departure_checks.gain(x, gain, whole)
    over = (-3, -1) if whole else -1
    normalised = x * torch.rsqrt(x.square().mean(dim=over, keepdim=True) + eps)
    if gain is None:
        return normalised
    factor = 1 + gain if plus_one else gain
    return normalised * (factor.unflatten(0, (heads, 1, -1)) if whole else factor)


def temperature(positions, floor_scale=8192, attn_scale=0.1):
    """Return the factor of each query, (…, i), in layers without RoPE.

    The factor is 1 + attn_scale * log(1 + floor((position + 1) / floor_scale)): it grows with the
    number of keys, among which the softmax must choose. Multiply q by ``factor[..., None]``. Its
    dtype is that of ``positions`` if that is floating-point, else float32. Source:
    llama4/modeling_llama4.py, ``Llama4TextAttention``, after https://arxiv.org/abs/2501.19399.
    """
    checks.count(floor_scale, "floor_scale")
    positions = torch.as_tensor(positions)
    dtype = positions.dtype if positions.is_floating_point() else torch.float32
    steps = torch.floor((positions.double() + 1) / floor_scale)
    return (1 + attn_scale * torch.log1p(steps)).to(dtype)
