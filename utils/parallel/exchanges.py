"""Count what a program hands over to other processes: calls and bytes, by kind."""

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "reduce",
         "gather", "scatter")  # "reduce" after "reduce_scatter"

INTO = (*KINDS[1:4], "gather", "scatter")  # c10d's own take the tensors to write into first


class Exchanges(TorchDispatchMode):
    """Count the exchanges of `torch.distributed` within ``with Exchanges() as seen:``.

    ``seen.calls`` and ``seen.bytes`` are Counters by kind, such as "all_reduce" and "send". Bytes
    are those of the tensors that this rank hands over, not of what an algorithm makes of them on
    the wire; what is received is counted by whoever sends it, a broadcast by every rank.
    """

    def __init__(self):
        super().__init__()
        self.calls, self.bytes = Counter(), Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Run an operation, counted if it is an exchange."""
        if function.namespace in ("c10d", "_c10d_functional"):
            kind = kind_of(function.name().partition("::")[2])
            if kind:
                into = function.namespace == "c10d" and kind in INTO
                given = tree_leaves(args[into])
                self.calls[kind] += 1
                self.bytes[kind] += sum(x.numel() * x.element_size() for x in given)
        return function(*args, **(kwargs or {}))


def kind_of(name):
    """Return which of KINDS an operation of c10d is, "all_reduce" for "allreduce_", or ""."""
    plain = name.replace("_", "").partition(".")[0]
    return next((kind for kind in KINDS if plain.startswith(kind.replace("_", ""))), "")
