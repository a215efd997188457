"""RoPE for sequences longer than those of the training: frequencies that are scaled (PyTorch).

The *frequency* of a pair of dimensions is the angle by which it rotates from one position to the
next. Each function returns frequencies, in float64, for ``scaled_rotary``. What it returns is what
``ROPE_INIT_FUNCTIONS`` of transformers 5.23.0 returns, there in float32:
https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/modeling_rope_utils.py.
Taught in chapter `long_context`.
"""

import math

import torch

from ..checks import long_context as long_checks


def frequencies(d, base=10_000.0, share=1.0):
    """Return RoPE's angle per position of each pair, (d / 2,).

    Pair n of the rotated dimensions rotates by base^(-2n / r) radians, where r = int(d * share) is
    their number: with a ``share`` below 1, *partial rotary*, there are only r / 2 frequencies, and
    ``positions.rotate`` leaves the other d − r dimensions as they are. Raises ValueError when d or
    r is odd. Source: Su et al. 2021, https://arxiv.org/abs/2104.09864.
    """
    rotated = long_checks.rotated(d, base, share)
    n = torch.arange(rotated // 2, dtype=torch.float64)
    return base ** (-2 * n / rotated)


def scaled_rotary(positions, freqs, attention_factor=1.0):
    """Return cos and sin of positions * freqs, (…, i) -> (…, i, n) each.

    ``freqs`` is (n,), and both results are multiplied by ``attention_factor``. If q and k are
    rotated with them, the scores are multiplied by its *square*. Angles are computed in float64.
    The results have the dtype of ``positions`` if that is floating-point, else float32, and are on
    the device of ``positions``. Raises ValueError or TypeError for freqs with more than one axis or
    a factor that is not above 0.
    """
    long_checks.scaled(freqs, attention_factor)
    positions = torch.as_tensor(positions)
    dtype = positions.dtype if positions.is_floating_point() else torch.float32
    angle = positions[..., None].double() * freqs.to(positions.device)
    return [(attention_factor * part).to(dtype) for part in (angle.cos(), angle.sin())]


def interpolated(freqs, factor):
    """Return freqs / factor, position interpolation, (n,).

    Position factor * p then gets the angles that position p had. Raises ValueError for a factor
    below 1. Source: Chen et al. 2023, https://arxiv.org/abs/2306.15595.
    """
    long_checks.scale(factor, freqs)
    return freqs / factor


def ntk_base(base, factor, d):
    """Return the base that slows down the last pair by ``factor``.

    The first of the d / 2 pairs keeps its frequency, 1. With partial rotary, d is the number of the
    dimensions that are rotated. Raises ValueError for d below 4 or a factor below 1. Source:
    "NTK-aware" interpolation, section 3.1 of https://arxiv.org/abs/2309.00071.
    """
    long_checks.raised(base, factor, d)
    return base * factor ** (d / (d - 2))


def dynamic_factor(factor, n, original):
    """Return the factor of ``ntk_base`` for a sequence of n tokens, in *dynamic* scaling.

    It is 1 up to ``original`` tokens, the length of the training, and ``factor * n / original −
    (factor − 1)`` beyond. A cache of keys that were rotated with another factor does not fit.
    Source: ``_compute_dynamic_ntk_parameters`` of transformers.
    """
    long_checks.grown(factor, n, original)
    return max(1.0, factor * n / original - (factor - 1))


def temperature(factor, mscale=1.0):
    """Return YaRN's attention factor, 0.1 * mscale * ln(factor) + 1.

    ``scaled_rotary`` multiplies cos and sin by it, once for q and once for k. Source: Peng et al.
    2023, https://arxiv.org/abs/2309.00071, section 3.4.
    """
    long_checks.scale(factor)
    return 0.1 * mscale * math.log(factor) + 1


def yarn(d, base, factor, original, beta_fast=32, beta_slow=1, truncate=True):
    """Return YaRN's frequencies, (d / 2,), and its attention factor.

    A pair that rotates at least ``beta_fast`` times in the ``original`` tokens of the training
    keeps its frequency, and one that rotates at most ``beta_slow`` times is divided by ``factor``.
    Between these two, a ramp is linear in the index of the pair; with ``truncate``, it begins and
    ends at whole indices. With partial rotary, d is the number of the dimensions that are rotated.
    Raises ValueError if there is no pair on the ramp. Source: Peng et al. 2023,
    https://arxiv.org/abs/2309.00071, section 3.4; the ramp is that of their program.
    """
    long_checks.yarn(d, base, factor, original, beta_fast, beta_slow)
    first, last = (d / 2 * math.log(original / (2 * math.pi * turns), base)
                   for turns in (beta_fast, beta_slow))  # indices, as fractions
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, d - 1)
    n = torch.arange(d // 2, dtype=torch.float64)
    ramp = ((n - first) / (last - first)).clamp(0, 1)  # 0 = keep
    freqs = frequencies(d, base)
    scaled = (1 - ramp) * freqs + ramp * interpolated(freqs, factor)
    return scaled, temperature(factor)


def yarn_factors(fields, in_scale=False):
    """Return YaRN's factors of cos and sin, and of the scale of scores.

    ``fields`` of a configuration: "factor", and if it has them "attention_factor", "mscale" and
    "mscale_all_dim". ``in_scale``: whether the code of the model multiplies its scale, as that of
    DeepSeek-V3 does; no field says so. Source: ``_compute_yarn_parameters`` of transformers, and
    ``yarn_apply_mscale`` in its DeepSeek-V3.
    """
    factor = fields["factor"]
    one, all_dim = (fields.get(name) or 0.0 for name in ("mscale", "mscale_all_dim"))
    on_sides = fields.get("attention_factor")
    if on_sides is None:
        on_sides = (temperature(factor, one) / temperature(factor, all_dim) if one and all_dim
                    else temperature(factor))
    return on_sides, temperature(factor, all_dim) ** 2 if in_scale else 1.0


def proportional(d, base, share):
    """Return Gemma 4's frequencies, (d / 2,): 0 from ``share`` on.

    The others are those of the whole head, in which pair n is dimensions n and n + d / 2, as in
    ``positions.rotate``. Source: ``_compute_proportional_rope_parameters`` of transformers.
    """
    freqs = frequencies(d, base)
    freqs[int(share * d // 2):] = 0.0
    return freqs


def llama3(freqs, factor=8, low=1, high=4, original=8192):
    """Return the frequencies of Llama 3.1, (n,).

    Those of pairs that rotate at least ``high`` times in ``original`` tokens are kept, and those of
    pairs that rotate at most ``low`` times are divided by ``factor``. Between these two, the ramp
    is linear in the number of rotations. Raises ValueError unless low < high. Source:
    ``_compute_llama3_parameters`` of transformers.
    """
    long_checks.llama3(freqs, factor, low, high, original)
    rotations = original * freqs / (2 * math.pi)
    keep = ((rotations - low) / (high - low)).clamp(0, 1)
    return keep * freqs + (1 - keep) * freqs / factor
