"""A cache that sets its room aside once, writes in place and hands out views."""

from utils import cache_checks, grouped_checks
from utils.cache import Cache, visible

AXES = (-2, -2, -1)  # of the columns: in k (b, h, j, d), v (b, h, j, d_v), positions (b, j) or (j,)


class PreallocatedCache(Cache):
    """A ``Cache`` of at most ``room`` columns, for decoding: nothing is copied when a token comes.

    With a ``window``, tokens that nobody sees are given up from the front, and what is held moves
    there when the room is used up: what ``extend`` returned stays right until the next call only.
    Raises ValueError for room or a window below 1.
    """

    def __init__(self, room, window=None):
        super().__init__(window)
        self.room, self.sides, self.end = grouped_checks.room(room), None, 0

    def extend(self, k, v, positions):
        """Add keys and values, return views of all that the queries at ``positions`` may need.

        Shapes and errors as for ``Cache.extend``; ValueError, too, when the room does not suffice
        or a gradient would flow through k or v.
        """
        cache_checks.fits(self.held, k, v, positions)
        grouped_checks.not_recorded(k, v)
        new, held = (k, v, positions), len(self)
        count = k.shape[-2]
        grouped_checks.fits_room(self.room, held, count)
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
