"""A cache of keys and values, so that no key is computed twice. Taught in chapter `kv_cache`.

The cache stores the position of each key. Masks are computed from positions and not from array
indices, so the result does not depend on the chunks in which a sequence arrived.
"""

import torch

from ..checks import cache as cache_checks
from .heads import merge_heads
from .torch import MultiHeadAttention, fused_attention


def visible(queries, keys, window=None):
    """Return keep, bool: True for keys at or before the query's position.

    (b, i), (b, j) -> (b, 1, i, j), or (i,), (j,) -> (i, j): integer tensors of positions, on one
    device. A key at position -1 is padding and masked for every query. ``window`` is the number of
    positions that a query may attend to, including its own; None = all.
    """
    queries, keys = queries[..., None], keys[..., None, :]
    keep = (keys >= 0) & (keys <= queries)
    if window is not None:
        keep &= queries - keys < window
    return keep if keep.ndim == 2 else keep[:, None]  # one for all heads


class Cache:
    """Keys (b, h, j, d), values (b, h, j, d_v) and positions of a layer.

    With a ``window``, a column is dropped as soon as the last token of no sequence may attend to
    it; without padding, ``window`` columns stay. An empty cache is false, like an empty list, so
    test with `is None`. Raises ValueError for a window below 1.
    """

    def __init__(self, window=None):
        self.window, self.held = cache_checks.window(window), None

    def __len__(self):
        """Return the number of columns held, including padding."""
        return 0 if self.held is None else self.held[0].shape[-2]

    def extend(self, k, v, positions):
        """Add keys and values; return all that the queries may attend to.

        k is (b, h, j, d), v (b, h, j, d_v), positions (b, j) or (j,), -1 = padding. Returns k, v
        and positions with the columns held before them. Raises ValueError for shapes that do not
        fit or positions that do not follow those held, TypeError for another dtype or device.
        """
        cache_checks.fits(self.held, k, v, positions)
        empty = k[..., :0, :], v[..., :0, :], positions[..., :0]
        old_k, old_v, old_positions = self.held or empty
        k, v = torch.cat((old_k, k), dim=-2), torch.cat((old_v, v), dim=-2)
        positions = torch.cat((old_positions, positions), dim=-1)
        self.held = self.still_seen(k, v, positions)
        return k, v, positions

    def still_seen(self, k, v, positions):
        """Return the columns that any last token may still attend to."""
        if self.window is None:
            return k, v, positions
        last = cache_checks.latest(positions)
        seen = visible(last, positions, self.window)
        seen = seen.flatten(0, -2).any(dim=0)  # (j,)
        return k[..., seen, :], v[..., seen, :], positions[..., seen]

    def next_positions(self, x):
        """Return the positions of the tokens x (b, i, e), (i,) or (b, i)."""
        new = torch.arange(x.shape[1], device=x.device)
        if self.held is None:
            return new
        return cache_checks.latest(self.held[2]) + 1 + new


class CausalAttention(MultiHeadAttention):
    """Causal self-attention, with or without a cache, (b, i, e).

    ``window`` is the number of positions that a query may attend to, including its own; None = all.
    Override ``heads_at`` to make q and k depend on their positions, ``attend`` to compute the
    context in another way. Raises ValueError when n_heads does not divide d_model, or for a window
    below 1.
    """

    attend = staticmethod(fused_attention)  # (q, k, v, keep, causal) -> context

    def __init__(self, d_model, n_heads, window=None, bias=True):
        super().__init__(d_model, n_heads, bias=bias)
        self.window = cache_checks.window(window)

    def heads_at(self, x, positions):
        """Return q, k and v of x (b, i, e), (b, h, i, d) each."""
        return self.project(x)

    def forward(self, x, positions=None, cache=None):
        """Return out; with a ``cache``, queries attend to its keys, too.

        ``positions`` are (i,) or (b, i), -1 = padding; by default they follow those in the cache,
        or start at 0. The cache is extended by the keys of x. At padding, out is the bias of W_o.
        Raises as ``Cache.extend`` does, and ValueError for a cache of another window.
        """
        cache_checks.step(self, x, cache)
        plain = positions is None and cache is None and self.window is None
        if positions is None:
            positions = (Cache() if cache is None else cache).next_positions(x)
        cache_checks.positions(positions, *x.shape[:2])
        q, k, v = self.heads_at(x, positions)  # (b, h, i, d)
        where = positions
        if cache is not None:
            k, v, where = cache.extend(k, v, positions)  # (b, h, j, d)
        keep = None if plain else visible(positions, where, self.window)
        if not plain and x.shape[1] == 1 and keep.all():  # one token after all others
            keep = None
        context = self.attend(q, k, v, keep, causal=plain)
        return self.W_o(merge_heads(context))


AXES = (-2, -2, -1)  # of the columns: in k (b, h, j, d), v (b, h, j, d_v), positions (b, j) or (j,)


class PreallocatedCache(Cache):
    """A ``Cache`` for decoding with memory for ``room`` columns: a new token copies no other.

    With a ``window``, columns that no query may attend to are dropped from the front. When the room
    is used up, the columns held move to the front. So views that ``extend`` returned are valid only
    until its next call. Raises ValueError for room or a window below 1.
    """

    def __init__(self, room, window=None):
        super().__init__(window)
        self.room, self.sides, self.end = cache_checks.room(room), None, 0

    def extend(self, k, v, positions):
        """Add keys and values; return views of all that the queries may attend to.

        Shapes and errors are those of ``Cache.extend``. Also raises ValueError when the room does
        not suffice, or when k or v requires a gradient.
        """
        cache_checks.fits(self.held, k, v, positions)
        cache_checks.not_recorded(k, v)
        new, held = (k, v, positions), len(self)
        count = k.shape[-2]
        cache_checks.fits_room(self.room, held, count)
        if self.sides is None:
            self.sides = [_emptied(side, axis, self.room)
                          for side, axis in zip(new, AXES, strict=True)]
        if self.end + count > self.room:
            self._to_the_front()
        start, self.end = self.end - held, self.end + count
        for side, axis, part in zip(self.sides, AXES, new, strict=True):
            side.narrow(axis, self.end - count, count).copy_(part)
        whole = [side.narrow(axis, start, held + count)
                 for side, axis in zip(self.sides, AXES, strict=True)]
        self.held = self.still_seen(*whole)
        return tuple(whole)

    def still_seen(self, k, v, positions):
        """Return views of all columns from the first that a last token may attend to."""
        if self.window is None:
            return k, v, positions
        seen = visible(cache_checks.latest(positions), positions, self.window)
        seen = seen.flatten(0, -2).any(dim=0).nonzero()  # (columns seen, 1)
        first = seen[0].item() if len(seen) else positions.shape[-1]
        return k[..., first:, :], v[..., first:, :], positions[..., first:]

    def _to_the_front(self):
        """Move what is held to the front of the room."""
        held = len(self)
        for side, axis, part in zip(self.sides, AXES, self.held, strict=True):
            side.narrow(axis, 0, held).copy_(part.clone())  # the two may overlap
        self.end = held


def _emptied(side, axis, room):
    """Return an uninitialised tensor like ``side``, with ``room`` columns."""
    shape = list(side.shape)
    shape[axis] = room
    return side.new_empty(shape)
