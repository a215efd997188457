"""How many bytes a program asks of PyTorch: a copy that no line of the program shows."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


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
