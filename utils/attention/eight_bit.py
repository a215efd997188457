"""Keys and values in 8 bits, and by how much the context can then be wrong.

Taught in chapter `serving`.
"""

import math

import torch

from ..checks import paged as paged_checks
from .paged import SharedCache


def quantise(x):
    """Return (codes, scale): int8 (…, d), and max|x| / 127, (…, 1).

    ``codes * scale`` differs from x by at most scale / 2. The scale is at least float32. Raises
    TypeError unless x is a tensor of floating-point numbers, ValueError unless they are finite.
    """
    paged_checks.finite(x)
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = x.abs().amax(dim=-1, keepdim=True) / 127
    codes = (x / scale.masked_fill(scale == 0, 1)).round()
    return codes.to(torch.int8), scale


def context_bound(q, k_scale, v_scale):
    """Return by how much 8 bits can change the context, (…, i).

    It bounds the change of each element. q is (…, i, d), ``k_scale`` and ``v_scale`` (…, j, 1),
    from ``quantise``. A score changes by at most c = sum|q| * max(k_scale) / (2 sqrt(d)). Then the
    weights change by at most c in sum, each value changes by at most max(v_scale) / 2, and no value
    exceeds 127 max(v_scale). Rounding of the arithmetic comes on top. Raises ValueError or
    TypeError for other shapes, or what is not a tensor.
    """
    paged_checks.scales(q, k_scale, v_scale)
    k_scale, v_scale = (scale.amax(dim=(-2, -1))[..., None] for scale in (k_scale, v_scale))
    score = q.abs().sum(dim=-1) * k_scale / (2 * math.sqrt(q.shape[-1]))  # (…, i)
    return v_scale * (127 * score + 0.5)


class EightBitCache(SharedCache):
    """A ``SharedCache`` of 8-bit codes, a scale for each token and head.

    ``dtype`` is that of the keys and values that it takes and returns. Scales are float32, or
    float64 for float64. Arguments and errors are those of ``PagedCache``.
    """

    def __init__(self, *counts, dtype=torch.float32, **more):
        super().__init__(*counts, dtype=dtype, **more)
        wide = torch.promote_types(dtype, torch.float32)
        self.sides = ([side.to(torch.int8) for side in self.sides]
                      + [side[..., :1].to(wide) for side in self.sides])

    def encoded(self, k, v):
        """Return what is stored of k and v: codes, then scales.

        k is (h, n, d), v (h, n, d_v); a scale has a last axis of 1.
        """
        (k, k_scale), (v, v_scale) = quantise(k), quantise(v)
        return k, v, k_scale, v_scale

    def decoded(self, k, v, k_scale, v_scale):
        """Return keys and values: codes * scale.

        They are (h, j, d) and (h, j, d_v), in the dtype of the cache.
        """
        return (k * k_scale).to(self.dtype), (v * v_scale).to(self.dtype)
