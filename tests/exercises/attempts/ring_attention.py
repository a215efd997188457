"""Attempts at the exercises on ring attention."""

import torch

SENT = {"MiB of a block": 56, "sixteen": "same", "GiB of all-reduces": 7}


def first_with_last(p):
    return [(rank, 2 * p - 1 - rank) for rank in range(p)]


RIGHT = {
    "sent_in_rings": [SENT, SENT | {"GiB of all-reduces": 7.0, "sixteen": "Same"}],
    "zigzag": [first_with_last, lambda p: [[2 * p - 1 - r, r] for r in reversed(range(p))],
               lambda p: torch.stack([torch.arange(p), torch.arange(2 * p - 1, p - 1, -1)], 1)],
}
WRONG = {
    "sent_in_rings": [
        (SENT | {"GiB of all-reduces": 8}, "sends p − 1 pieces twice"),
        (SENT | {"GiB of all-reduces": 3.5}, "goes round the ring twice"),
        (SENT | {"GiB of all-reduces": 28}, "That is p − 1 whole tensors"),
        (SENT | {"GiB of all-reduces": 56}, "That is 2 (p − 1) whole tensors"),
        (SENT | {"GiB of all-reduces": 4}, "That is what it hands over"),
        (SENT | {"MiB of a block": 64}, "p − 1 hops"),
        (SENT | {"MiB of a block": 28}, "A hop sends keys, and what else?"),
        (SENT | {"MiB of a block": 8}, "That is for one hop"),
        (SENT | {"MiB of a block": 1792}, "for 32 blocks, not for one"),
        (SENT | {"sixteen": "double"}, "how much does each send?"),
        (SENT | {"sixteen": "half"}, "how many hops are there?"),
        (SENT | {"GiB of all-reduces": 5}, "2 (p − 1)/p times what is handed over"),
    ],
    "zigzag": [
        (lambda p: [(2 * r, 2 * r + 1) for r in range(p)],
         "rank 0 with pieces [0, 1] computes the pairs of 2 squares, rank 1 with [2, 3] those of"),
        (lambda p: [(r, r + p) for r in range(p)],
         "rank 0 with pieces [0, 2] computes the pairs of 3 squares, rank 1 with [1, 3] those of"),
        (lambda p: [(0, 3), (1, 2), (4, 7), (5, 6)][:p],
         "For p = 4, rank 0 with pieces [0, 3]"),
        (lambda p: list(range(2 * p)), "it must return 2 pairs of integers"),
        (lambda p: [(r, 2 * p - r) for r in range(p)], "each piece from 0 to 3 must belong to one"),
        (lambda p: [(r, 2 * p - 1 - r) for r in range(2 * p)], "2 pairs of integers"),
    ],
}
