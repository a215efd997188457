"""Keys and values kept, so that nothing is computed twice. Taught in chapter `kv_cache`.

A key carries its position with it. Who may attend to whom is read off the positions, never off the
places in an array, so it cannot matter in which chunks a text arrived.
"""

import torch

from utils.attention.heads import merge_heads
from utils.attention.torch import MultiHeadAttention, fused_attention
from utils.checks import cache as cache_checks


def visible(queries, keys, window=None):
    """Return keep, bool: a query may attend to the keys that stand at its own position or before.

    (b, i), (b, j) -> (b, 1, i, j), or (i,), (j,) -> (i, j): integer tensors of positions, on one
    device; a key at position -1 is padding and nobody's. ``window``: how many positions a query
    sees, its own included; None = all.
    """
    queries, keys = queries[..., None], keys[..., None, :]
    keep = (keys >= 0) & (keys <= queries)
    if window is not None:
        keep &= keys > queries - window
    return keep if keep.ndim == 2 else keep[:, None]  # one for all heads


class Cache:
    """What one layer has read: its keys (b, h, j, d), values (b, h, j, d_v) and positions.

    With a ``window``, a column is dropped once the last word no longer sees it, in any text of the
    batch: without padding, ``window`` columns stay. An empty cache is false, as an empty list is:
    ask `is None`. Raises ValueError for a window below 1.
    """

    def __init__(self, window=None):
        self.window, self.held = cache_checks.window(window), None

    def __len__(self):
        """Return how many columns of keys are held, padding included."""
        return 0 if self.held is None else self.held[0].shape[-2]

    def extend(self, k, v, positions):
        """Add keys and values, return all that the queries at ``positions`` may need.

        k (b, h, j, d), v (b, h, j, d_v), positions (b, j) or (j,), -1 = padding; returned are k, v
        and positions with more columns. Raises ValueError for sizes that do not fit, or positions
        that are not later than those before, TypeError for dtypes.
        """
        cache_checks.fits(self.held, k, v, positions)
        empty = k[..., :0, :], v[..., :0, :], positions[..., :0]
        old_k, old_v, old_positions = self.held or empty
        k, v = torch.cat((old_k, k), dim=-2), torch.cat((old_v, v), dim=-2)
        positions = torch.cat((old_positions, positions), dim=-1)
        self.held = self.still_seen(k, v, positions)
        return k, v, positions

    def still_seen(self, k, v, positions):
        """Return the columns of k, v and positions that the last word of any text sees."""
        if self.window is None:
            return k, v, positions
        last = cache_checks.latest(positions)
        seen = visible(last, positions, self.window)
        seen = seen.flatten(0, -2).any(dim=0)  # (j,)
        return k[..., seen, :], v[..., seen, :], positions[..., seen]

    def next_positions(self, x):
        """Return the positions at which the words x (b, i, e) go on, (i,) or (b, i)."""
        new = torch.arange(x.shape[1], device=x.device)
        if self.held is None:
            return new
        return cache_checks.latest(self.held[2]) + 1 + new


class CausalAttention(MultiHeadAttention):
    """Causal self-attention at given positions, with a cache or without, (b, i, e) -> (b, i, e).

    ``window``: how many positions a query sees, its own included; None = all before it. Override
    ``heads_at`` to tell q and k where they stand, ``attend`` to compute the context in another way.
    Raises ValueError when n_heads does not divide d_model, or for a window below 1.
    """

    attend = staticmethod(fused_attention)  # (q, k, v, keep, causal) -> context

    def __init__(self, d_model, n_heads, window=None, bias=True):
        super().__init__(d_model, n_heads, bias=bias)
        self.window = cache_checks.window(window)

    def heads_at(self, x, positions):
        """Return q, k and v of the words x (b, i, e) at these positions, (b, h, i, d) each."""
        return self.project(x)

    def forward(self, x, positions=None, cache=None):
        """Return out. ``positions``: (i,) or (b, i), -1 = padding; by default, a text begins here.

        With a ``cache``, queries also see what it holds, and it takes up what they leave; positions
        go on where it ends. Padding gets the bias of W_o. Raises as ``Cache.extend`` does, and
        ValueError for a cache of another window.
        """
        cache_checks.same_window(self, cache)
        plain = positions is None and cache is None and self.window is None
        if positions is None:
            positions = (Cache() if cache is None else cache).next_positions(x)
        cache_checks.positions(positions, *x.shape[:2])
        q, k, v = self.heads_at(x, positions)  # (b, h, i, d)
        where = positions
        if cache is not None:
            k, v, where = cache.extend(k, v, positions)  # (b, h, j, d)
        keep = None if plain else visible(positions, where, self.window)
        if not plain and x.shape[1] == 1 and keep.all():  # one word after all others
            keep = None
        context = self.attend(q, k, v, keep, causal=plain)
        return self.W_o(merge_heads(context))


AXES = (-2, -2, -1)  # of the columns: in k (b, h, j, d), v (b, h, j, d_v), positions (b, j) or (j,)


class PreallocatedCache(Cache):
    """A ``Cache`` of at most ``room`` columns, for decoding: nothing is copied when a token comes.

    With a ``window``, tokens that nobody sees are given up from the front, and what is held moves
    there when the room is used up: what ``extend`` returned stays right until the next call only.
    Raises ValueError for room or a window below 1.
    """

    def __init__(self, room, window=None):
        super().__init__(window)
        self.room, self.sides, self.end = cache_checks.room(room), None, 0

    def extend(self, k, v, positions):
        """Add keys and values, return views of all that the queries at ``positions`` may need.

        Shapes and errors as for ``Cache.extend``; ValueError, too, when the room does not suffice
        or a gradient would flow through k or v.
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
        """Return views of k, v and positions from the first column on that a last word sees."""
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
    """Return room for ``room`` columns like those of ``side``."""
    shape = list(side.shape)
    shape[axis] = room
    return side.new_empty(shape)
