"""What the layers of a decoder share: positions, the angles of RoPE, and masks, computed once.

The programs here repeat ``positions.rotate`` and ``grouped_attention`` without their checks, for
arrays that a layer has made itself: in every layer and step, the checks cost more than the work.
"""

import torch
import torch.nn.functional as F

from ..attention.cache import Cache, visible
from ..checks import cache as cache_checks
from .rotation import angles


def unmasked(q, k, v, causal):
    """Return what ``grouped_attention`` does without a mask, (b, h, i, d), for checked sides."""
    if q.shape[-2] > 1 or causal:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    folded = q.reshape(len(q), k.shape[1], -1, q.shape[-1])  # (b, h_kv, group, d)
    return F.scaled_dot_product_attention(folded, k, v).view_as(q)


def turn_of(x, positions, d, rotation):
    """Return cos and sin for ``turned``, (1, i, d) or (b, 1, i, d), in the dtype of x."""
    cos, sin = angles(positions[..., None, :], d, rotation)
    return torch.cat((cos, cos), dim=-1).to(x), torch.cat((-sin, sin), dim=-1).to(x)


def turned(x, cos, sin):
    """Rotate dimensions n and n + d / 2 as ``positions.rotate`` does, (b, h, i, d).

    Rolling by d / 2 exchanges the two dimensions of each pair.
    """
    return x * cos.to(x) + x.roll(x.shape[-1] // 2, dims=-1) * sin.to(x)


class Shared:
    """What all layers have in common while a decoder reads x (b, i, e).

    ``positions`` as in ``CausalAttention``; by default they follow those in the first of
    ``caches``. ``fresh``: x has no padding, and nothing comes before it. ``turns`` maps each of
    ``rotations`` to what ``turned`` takes. Raises as ``CausalAttention`` does for positions.
    """

    def __init__(self, x, positions=None, caches=(), rotations=(), d_head=None):
        first = next((cache for cache in caches if cache is not None), Cache())
        self.fresh = positions is None and not first
        self.positions = first.next_positions(x) if positions is None else positions
        cache_checks.positions(self.positions, *x.shape[:2])
        self.turns = {rotation: turn_of(x, self.positions, d_head, rotation)
                      for rotation in rotations}
        self.masks = {}

    def keep(self, where, window):
        """Return the mask for keys at the positions ``where``; None if nothing is masked.

        A layer uses the mask of the layer before it with this ``window``, if its keys stand at the
        same positions. (They do not if the caches were filled differently.)
        """
        known, keep = self.masks.get(window, (None, None))
        if known is None or not torch.equal(known, where):
            keep = visible(self.positions, where, window)
            if self.positions.shape[-1] == 1 and keep.all():  # one token after all others
                keep = None
            self.masks[window] = where, keep
        return keep
