"""Record the operations that PyTorch runs in a program, and the bytes of their tensors.

PyTorch passes each operation that it runs to a ``TorchDispatchMode``, in the backward pass as well.
Memory that an operation allocates and frees internally is not visible.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Operations(TorchDispatchMode):
    """Record the name of each operation."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


class _LiveBytes(TorchDispatchMode):
    """Count the bytes of the tensors that operations returned and that still exist."""

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
        if storage not in self.known:  # not a view of a tensor that is counted already
            self.known.add(storage)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, storage.nbytes())

    def _free(self, size):
        self.now -= size


def operations(program):
    """Return the names of the operations that ``program()`` runs, in order, a list of str."""
    with _Operations() as seen:
        program()
    return seen.names


def peak_bytes(program, *inputs):
    """Return the peak number of bytes of tensors that ``program()`` creates, an integer.

    Tensors that existed before are not counted; pass them as ``inputs`` if the program takes views
    of them. The result depends on the program and not on the computer.
    """
    with _LiveBytes(inputs) as live:
        program()
    return live.peak


class Allocations(TorchDispatchMode):
    """Record each tensor that allocates memory in the block ``with Allocations() as new:``.

    ``made`` is a list of (operation, shape, bytes), ``bytes`` is the sum, ``largest`` the largest
    number of bytes. Views and tensors written in place are not included.
    """

    def __init__(self):
        super().__init__()
        self.made = []

    @property
    def bytes(self):
        """The bytes of all tensors in ``made``."""
        return sum(size for *_, size in self.made)

    @property
    def largest(self):
        """The bytes of the largest tensor in ``made``, 0 if there is none."""
        return max((size for *_, size in self.made), default=0)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Run one operation and record the tensors that it allocates."""
        kwargs = kwargs or {}
        before = {_storage(part) for part in _tensors((args, kwargs))}
        out = function(*args, **kwargs)
        for part in _tensors(out):
            if _storage(part) not in before:
                self.made.append((str(function), tuple(part.shape),
                                  part.untyped_storage().nbytes()))
        return out


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _storage(tensor):
    """Return an identifier of the memory of a tensor."""
    return tensor.untyped_storage()._cdata
