"""Count the collectives of `torch.distributed` that a program calls, and their bytes."""

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "reduce",
         "gather", "scatter")  # "reduce" after "reduce_scatter"

INTO = (*KINDS[1:4], "gather", "scatter")  # in c10d, the output tensors come first


class Collectives(TorchDispatchMode):
    """Count the collectives of `torch.distributed` in the block ``with Collectives() as seen:``.

    ``seen.calls`` and ``seen.bytes`` are Counters by kind, such as "all_reduce" and "send". Bytes
    are those of the input tensors of this rank, not those that an algorithm sends over the network.
    A receive is counted by the rank that sends; a broadcast is counted by every rank.
    """

    def __init__(self):
        super().__init__()
        self.calls, self.bytes = Counter(), Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Run an operation, and count it if it is a collective."""
        if function.namespace in ("c10d", "_c10d_functional"):
            kind = kind_of(function.name().partition("::")[2])
            if kind:
                outputs_first = function.namespace == "c10d" and kind in INTO
                inputs = tree_leaves(args[1] if outputs_first else args[0])
                self.calls[kind] += 1
                self.bytes[kind] += sum(x.numel() * x.element_size() for x in inputs)
        return function(*args, **(kwargs or {}))


def kind_of(name):
    """Return the kind of an operation of c10d, "allreduce_" -> "all_reduce"; "" if it has none."""
    plain = name.replace("_", "").partition(".")[0]
    return next((kind for kind in KINDS if plain.startswith(kind.replace("_", ""))), "")
