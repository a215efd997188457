"""What PyTorch does underneath a program: which operations it calls, how many bytes are alive.

Both look on from a ``TorchDispatchMode``, to which PyTorch shows every operation that it runs, in
the backward pass too. What an operation needs inside itself, and gives back, it does not show.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Operations(TorchDispatchMode):
    """Write down the name of each operation."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


class _LiveBytes(TorchDispatchMode):
    """Count the bytes of what operations have returned and nobody has let go of yet."""

    def __init__(self, inputs):
        super().__init__()
        self.known = weakref.WeakSet(x.untyped_storage() for x in inputs)
        self.now = self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor):
                self._count(x.untyped_storage())
        return out

    def _count(self, storage):
        if storage not in self.known:  # not a view of what is counted already
            self.known.add(storage)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._let_go, storage.nbytes())

    def _let_go(self, size):
        self.now -= size


def operations(program):
    """Return the names of the operations that ``program()`` runs, in order, a list of str."""
    with _Operations() as seen:
        program()
    return seen.names


def peak_bytes(program, *inputs):
    """Return the most bytes of tensors that ``program()`` held at once, an integer.

    What was there before does not count; name those tensors as ``inputs`` where views of them are
    taken. It depends on the program alone, not on the machine.
    """
    with _LiveBytes(inputs) as live:
        program()
    return live.peak
