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


class Allocations(TorchDispatchMode):
    """Within ``with Allocations() as new:`` note each tensor that gets memory of its own.

    ``made`` holds (operation, shape, bytes); ``bytes`` is their sum, ``largest`` the largest of
    them. Views and what is written in place are not among them.
    """

    def __init__(self):
        super().__init__()
        self.made = []

    @property
    def bytes(self):
        """The bytes of all tensors made."""
        return sum(size for *_, size in self.made)

    @property
    def largest(self):
        """The bytes of the largest tensor made, 0 when there was none."""
        return max((size for *_, size in self.made), default=0)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Run one operation and note what it made."""
        kwargs = kwargs or {}
        before = {_place(part) for part in _tensors((args, kwargs))}
        out = function(*args, **kwargs)
        for part in _tensors(out):
            if _place(part) not in before:
                self.made.append((str(function), tuple(part.shape),
                                  part.untyped_storage().nbytes()))
        return out


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _place(tensor):
    return tensor.untyped_storage()._cdata
