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
    cache: str = "append"           # a name in ``_cached``
    # Which chunks get the causal mask: "always", "never", "after the first chunk", "in the first
    # chunk"; or, with a cache, "one too late" or "one too early".
    masked: str = "always"
    restarts: str = ""              # letters whose positions, for RoPE, start at 0 in each chunk


def decode(q, k, v, chunks, **settings):
    """Return the context of all chunks, (b, h, n, d_v); q, k (b, h, n, d), v (b, h, n, d_v).

    ``chunks``: how many positions each call gets. ``settings`` are those of DecodingFaults.
    """
    faults = DecodingFaults(**settings)
    contexts, past_k, past_v, end = [], k[:, :, :0], v[:, :, :0], 0
    of_keys = "append" if faults.cache == "keys only" else faults.cache
    for chunk in chunks:
        new = slice(end, end + chunk)
        queries, keys, values = _prepared(q[:, :, new], k[:, :, new], v[:, :, new], faults, end)
        keys, past_k = _cached(of_keys, past_k, keys)
        values, past_v = _cached(faults.cache, past_v, values)
        align = faults.align
        if align == "top_left of several":
            align = "top_left" if chunk > 1 else "bottom_right"
        band = _chunk_band(faults.band, faults.masked, first=end == 0)
        inside = replace(faults, align=align, band=band, unit="", rotary=None)
        contexts.append(kernel.attention(queries, keys, values, None, inside)[0])
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
    shift = 0 if first else {"one too late": 1, "one too early": -1}.get(masked, 0)
    left = None if band.left is None else band.left - shift
    right = None if band.right is None else band.right + shift
    return Band(left, right)


def _cached(cache, past, new):
    """Return the keys or values that a chunk attends to and those that are kept, (b, h, n, d).

    ``past``: those that were kept before, at first none. "keys only" is meant for the values.
    """
    length, begun = new.shape[2], past.shape[2] > 0
    both = np.concatenate([past, new], axis=2)
    over = np.concatenate([new, past[:, :, length:]], axis=2)
    front = np.concatenate([over, 0 * new[:, :, :past.shape[2]]], axis=2)
    return {
        "append": (both, both),
        "none": (new, past),
        "first only": (both, past if begun else new),
        "last only": (both, new),
        "old only": (past if begun else both, both),
        "overwritten": (over, over),
        "front": (front, front),  # of a buffer, of which the right length is used
        "keys only": (np.concatenate([0 * past, new], axis=2), both)}[cache]
