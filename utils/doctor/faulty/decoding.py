"""Decoding with a cache in float64 NumPy with a switch for every fault; none on, one causal pass.

The switches of its kernel are those of ``utils.doctor.faulty.kernel.attention``.
"""

import numpy as np

from utils.doctor import faulty
from utils.doctor.faulty.kernel import Band


def decode(q, k, v, chunks, *, cache="append", masked="always", corner="bottom_right",
           band=Band(None, 0), **kernel):  # noqa: B008 - a NamedTuple cannot change
    """Return the context of all chunks, (b, h, n, d_v); q, k (b, h, n, d), v (b, h, n, d_v).

    ``chunks``: how many positions come at a time. ``cache``: a name in CACHES, ``masked``:
    "always", "never", "after the first chunk", "in the first chunk", or, with a cache, "one too
    late" or "one too early"; ``corner`` of each chunk's mask, "bottom_right", "top_left" or, but
    for chunks of one, "top_left of several".
    """
    contexts, held, end = [], None, 0
    for chunk in chunks:
        new = slice(end, end + chunk)
        keys, values, held = CACHES[cache](held, k[:, :, new], v[:, :, new])
        first, end = end == 0, end + chunk
        open_ = masked == "never" or masked == ("after the first chunk" if first
                                                else "in the first chunk")
        shift = 0 if first else {"one too late": 1, "one too early": -1}.get(masked, 0)
        hung = {"top_left of several": "top_left" if chunk > 1 else "bottom_right"}.get(
            corner, corner)
        context, _ = faulty.kernel.attention(q[:, :, new], keys, values, corner=hung,
                                      band=Band() if open_ else _shifted(band, shift), **kernel)
        contexts.append(context)
    return np.concatenate(contexts, axis=2)


def _shifted(band, by):
    return Band(*(None if end is None else end + sign * by
                  for end, sign in zip(band, (-1, 1), strict=True)))


def _joined(held, k, v):
    pairs = [(k, v)] if held is None else [held, (k, v)]
    return tuple(np.concatenate(parts, axis=2) for parts in zip(*pairs, strict=True))


def _append(held, k, v):
    both = _joined(held, k, v)
    return *both, both


def _first_only(held, k, v):
    """The first chunk is kept, and no other."""
    return *_joined(held, k, v), held or (k, v)


def _last_only(held, k, v):
    """What is kept is the new chunk instead of all."""
    return *_joined(held, k, v), (k, v)


def _none(held, k, v):
    """Nothing is kept, or what is kept is not used."""
    return k, v, None


def _old_only(held, k, v):
    """The new chunk is put into the cache, but its own queries do not see it."""
    both = _joined(held, k, v)
    return *(held or both), both


def _overwritten(held, k, v):
    """The new chunk is written over the first positions of the cache."""
    old = held or (k, v)
    kept = tuple(np.concatenate([new, past[:, :, new.shape[2]:]], axis=2)
                 for new, past in zip((k, v), old, strict=True))
    return *kept, kept


def _front(held, k, v):
    """The new chunk is written to the front of a buffer that is read as far as it should be."""
    old = held or (k[:, :, :0], v[:, :, :0])
    kept = tuple(np.concatenate([new, past[:, :, new.shape[2]:], 0 * (
        new[:, :, :min(new.shape[2], past.shape[2])])], axis=2)
        for new, past in zip((k, v), old, strict=True))
    return *kept, kept


def _keys_only(held, k, v):
    """Keys are kept; the values of earlier positions count as zero."""
    keys, values = _joined(held, k, v)
    past = keys.shape[2] - v.shape[2]
    return keys, np.concatenate([0 * values[:, :, :past], v], axis=2), (keys, values)


CACHES = {"append": _append, "first only": _first_only, "last only": _last_only, "none": _none,
          "old only": _old_only, "overwritten": _overwritten,
          "front": _front,
          "keys only": _keys_only}
