"""A cache for many sequences, in blocks of a fixed size. Taught in chapter `serving`.

``BlockTables`` says which blocks a sequence has, ``PagedCache`` holds what is in them, and
``SharedCache`` lets sequences share them. Source: https://arxiv.org/abs/2309.06180.
"""

import torch

from .. import checks
from ..checks import paged as paged_checks, ragged as ragged_checks
from .ragged import ragged_attention, starts


class BlockTables:
    """Which blocks each sequence has, in order, and which are free.

    A sequence has a name, any hashable object. ``tables[name]`` are its blocks, ``lengths[name]``
    its tokens, and token t is in block ``tables[name][t // size]``. ``users`` counts the sequences
    of each block, and ``free`` lists the blocks that have none. Raises ValueError or TypeError
    unless n_blocks and size are counts.
    """

    def __init__(self, n_blocks, size):
        n_blocks, self.size = checks.counts(n_blocks=n_blocks, size=size)
        self.free, self.users = list(range(n_blocks)), [0] * n_blocks
        self.tables, self.lengths = {}, {}

    def _missing(self, name, n):
        """Return how many blocks a sequence needs for n more tokens.

        Raises ValueError or TypeError unless n is a count.
        """
        room = len(self.tables.get(name, ())) * self.size
        more = self.lengths.get(name, 0) + checks.count(n, "n") - room
        return -(-more // self.size)  # rounded up

    def _take(self):
        """Return a free block, which has one user now; raises IndexError if none is free."""
        block = self.free.pop(0)
        self.users[block] = 1
        return block

    def reserve(self, name, n):
        """Make room for n more tokens of a sequence, also of a new one.

        Raises ValueError, and changes nothing, when too few blocks are free.
        """
        more = self._missing(name, n)
        paged_checks.free_blocks(more, len(self.free))
        new = [self._take() for _ in range(more)]
        self.tables[name] = [*self.tables.get(name, ()), *new]
        self.lengths[name] = self.lengths.get(name, 0) + n

    def release(self, name):
        """Forget a sequence; blocks without another user are free again.

        Raises ValueError for an unknown sequence.
        """
        paged_checks.known(self.tables, name)
        for block in self.tables.pop(name):
            self.users[block] -= 1
            if self.users[block] == 0:
                self.free.append(block)
        del self.lengths[name]


class PagedCache(BlockTables):
    """Keys and values in blocks; one table for all layers.

    ``sides`` are tensors (layers, h, blocks, size, d) and (layers, h, blocks, size, d_v); ``d_v``
    defaults to d, and h is the number of heads of k and v. Raises ValueError or TypeError unless
    all sizes are counts.
    """

    def __init__(self, n_blocks, size, n_layers, n_heads, d, d_v=None, dtype=torch.float32):
        super().__init__(n_blocks, size)
        counts = paged_checks.sizes(n_layers, n_heads, d, d_v)
        shape, self.widths, self.dtype = counts[:2], counts[2:], dtype
        self.sides = [torch.zeros(*shape, n_blocks, size, d, dtype=dtype) for d in self.widths]

    def write(self, layer, name, k, v):
        """Store k and v as those of the last n tokens of a sequence.

        k is (h, n, d), v (h, n, d_v). Call ``reserve(name, n)`` once before, for all layers. Raises
        ValueError or TypeError for what does not fit, or if k or v requires a gradient.
        """
        last = paged_checks.written(self, layer, name, k, v)
        where = torch.arange(last - k.shape[1], last)  # (n,)
        blocks = torch.tensor(self.tables[name])[where // self.size]
        paged_checks.unshared(self.users, blocks.tolist())
        for side, new in zip(self.sides, self.encoded(k, v), strict=True):
            side[layer][:, blocks, where % self.size] = new.detach()

    def read(self, layer, name):
        """Return keys and values of a sequence, (h, j, d) and (h, j, d_v).

        Raises ValueError for an unknown sequence or layer.
        """
        table, length = paged_checks.held(self, layer, name)
        slots = [side[layer][:, table].flatten(1, 2) for side in self.sides]
        return self.decoded(*(slot[:, :length] for slot in slots))

    def encoded(self, k, v):
        """Return what is stored of k and v, in the order of ``sides``."""
        return k, v

    def decoded(self, k, v):
        """Return keys and values from what is stored."""
        return k, v


class SharedCache(PagedCache):
    """A ``PagedCache`` whose sequences can share blocks."""

    def share(self, name, source, n=None):
        """Begin a sequence with the first n tokens of another one.

        Nothing is copied. n None = all of them. Raises ValueError when the name exists already,
        when the source does not, or when it has fewer than n tokens.
        """
        n = paged_checks.prefix(self, name, source, n)
        self.tables[name] = self.tables[source][:-(-n // self.size)]
        self.lengths[name] = n
        for block in self.tables[name]:
            self.users[block] += 1

    def reserve(self, name, n):
        """Make room for n more tokens; copy the last block if it is shared.

        Only a block that is not full is copied (copy on write), because no other will be written.
        Raises ValueError, and changes nothing, when too few blocks are free.
        """
        more, table = self._missing(name, n), self.tables.get(name, ())
        if self.lengths.get(name, 0) % self.size and self.users[table[-1]] > 1:
            paged_checks.free_blocks(more + 1, len(self.free))
            old, new = table[-1], self._take()
            for side in self.sides:
                side[:, :, new] = side[:, :, old]
            self.users[old] -= 1
            self.tables[name] = [*table[:-1], new]
        super().reserve(name, n)


def paged_attention(q, k, v, cache, layer, names, lengths):
    """Store new keys and values, and attend to all of each sequence.

    q (h, n, d), k (h_kv, n, d), v (h_kv, n, d_v) -> (h, n, d_v): a ragged batch of new tokens,
    ``lengths[b]`` of sequence ``names[b]``. Call ``cache.reserve(name, length)`` before, once for
    all layers. Raises as ``ragged_attention`` and ``PagedCache.write`` do.
    """
    q_starts = starts(lengths)
    ragged_checks.ragged(q, k, v, q_starts, None, True)
    lengths = paged_checks.requests(names, q_starts.diff())
    parts = k.split(lengths, dim=1), v.split(lengths, dim=1)
    for name, new_k, new_v in zip(names, *parts, strict=True):
        cache.write(layer, name, new_k, new_v)
    held = [cache.read(layer, name) for name in names]
    k, v = (torch.cat(side, dim=1) for side in zip(*held, strict=True))
    k_starts = starts([cache.lengths[name] for name in names])
    return ragged_attention(q, k, v, q_starts, k_starts)
