"""Decoding with a cache in float64 NumPy with a switch for each fault; all off, one causal pass."""

from dataclasses import dataclass, replace

import numpy as np

from . import designs, kernel
from .kernel import Band


@dataclass(frozen=True)
class DecodingFaults(kernel.Faults):
    """The switches of decoding and of the kernel inside. With the defaults, it is one pass.

    ``align``: the alignment of each chunk's mask; "top_left of several" is that of chunks longer
    than one only.
    """

    band: Band = Band(None, 0)      # noqa: RUF009 - a NamedTuple cannot change
    align: str = "bottom_right"
    cache: str = "append"           # a name in CACHES
    # Which chunks get the causal mask: "always", "never", "after the first chunk", "in the first
    # chunk"; or, with a cache, "one too late" or "one too early".
    masked: str = "always"
    restarts: str = ""              # letters whose positions, for RoPE, start at 0 in each chunk


RIGHT = DecodingFaults()


def decode(q, k, v, chunks, faults=RIGHT, **settings):
    """Return the context of all chunks, (b, h, n, d_v); q, k (b, h, n, d), v (b, h, n, d_v).

    ``chunks``: how many positions each call gets. ``settings`` replace fields of ``faults``.
    """
    faults = replace(faults, **settings) if settings else faults
    contexts, held, end = [], None, 0
    for chunk in chunks:
        new = slice(end, end + chunk)
        queries, keys, values = _prepared(q[:, :, new], k[:, :, new], v[:, :, new], faults, end)
        keys, values, held = CACHES[faults.cache](held, keys, values)
        its_band = _chunk_band(faults.band, faults.masked, first=end == 0)
        its_align = faults.align
        if its_align == "top_left of several":
            its_align = "top_left" if chunk > 1 else "bottom_right"
        context, _ = kernel.attention(queries, keys, values, None, faults, align=its_align,
                                      band=its_band, unit="", rotary=None)
        contexts.append(context)
        end += chunk
    return np.concatenate(contexts, axis=2)


def _prepared(q, k, v, faults, start):
    """Return q, k and v of a chunk as they are cached: normalised, and rotated from ``start``."""
    if faults.unit:
        q, k = (faults.gain * designs.normalised(x, faults.unit) for x in (q, k))
    if not faults.rotary:
        return q, k, v
    found = []
    for letter, x in (("q", q), ("k", k), ("v", v)):
        first = 0 if letter in faults.restarts else start
        first += faults.shift if letter == "q" else 0
        turned = letter in faults.turned
        found.append(designs.rotated(x, designs.Rotary(*faults.rotary), first) if turned else x)
    return found


def _chunk_band(band, masked, first):
    """Return the Band of a chunk, which is the first one or a later one."""
    unmasked_here = "after the first chunk" if first else "in the first chunk"
    if masked in ("never", unmasked_here):
        return Band()
    if first or masked not in ("one too late", "one too early"):
        return band
    shift = 1 if masked == "one too late" else -1
    left = None if band.left is None else band.left - shift
    right = None if band.right is None else band.right + shift
    return Band(left, right)


def _joined(held, k, v):
    pairs = [(k, v)] if held is None else [held, (k, v)]
    return tuple(np.concatenate(parts, axis=2) for parts in zip(*pairs, strict=True))


# Each returns (keys, values, cache): what a chunk attends to, and what is kept for the next.

def _append(held, k, v):
    both = _joined(held, k, v)
    return *both, both


def _first_only(held, k, v):
    """Keep the first chunk and no other."""
    return *_joined(held, k, v), held or (k, v)


def _last_only(held, k, v):
    """Keep the new chunk instead of all chunks."""
    return *_joined(held, k, v), (k, v)


def _none(held, k, v):
    """Keep nothing, or do not use what is kept."""
    return k, v, None


def _old_only(held, k, v):
    """Put the new chunk into the cache; its own queries do not attend to it."""
    both = _joined(held, k, v)
    return *(held or both), both


def _overwritten(held, k, v):
    """Write the new chunk over the first positions of the cache."""
    old = held or (k, v)
    kept = tuple(np.concatenate([new, past[:, :, new.shape[2]:]], axis=2)
                 for new, past in zip((k, v), old, strict=True))
    return *kept, kept


def _front(held, k, v):
    """Write the new chunk to the front of a buffer, of which the right length is used."""
    old = held or (k[:, :, :0], v[:, :, :0])
    kept = tuple(np.concatenate([new, past[:, :, new.shape[2]:], 0 * (
        new[:, :, :min(new.shape[2], past.shape[2])])], axis=2)
        for new, past in zip((k, v), old, strict=True))
    return *kept, kept


def _keys_only(held, k, v):
    """Keep the keys; the values of earlier positions count as zero."""
    keys, values = _joined(held, k, v)
    past = keys.shape[2] - v.shape[2]
    return keys, np.concatenate([0 * values[:, :, :past], v], axis=2), (keys, values)


CACHES = {"append": _append, "first only": _first_only, "last only": _last_only, "none": _none,
          "old only": _old_only, "overwritten": _overwritten, "front": _front,
          "keys only": _keys_only}
