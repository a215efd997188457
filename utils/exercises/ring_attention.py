"""The exercises of the chapter on ring attention."""

import numpy as np

from ._check import Check, Exercise
from ._judges import predictions

SENT = predictions(
    {"MiB of a block": 56, "sixteen": "same", "GiB of all-reduces": 7},
    {"MiB of a block": {
        28: "A hop sends keys, and what else?", 64: "There are p − 1 hops, not p.",
        8: "That is for one hop.", 112: "Count the forward pass only, and 2 bytes a number.",
        448: "That is for all keys and values in each hop; a rank sends those of 512 tokens.",
        1792: "That is for 32 blocks, not for one.",
        58.720256: "A MiB has 1024 · 1024 bytes.", 58720256: "That is in bytes.",
        None: "There are p − 1 hops, and each sends the keys and the values of 512 tokens, 4096 "
              "numbers each."},
     "sixteen": {
         "half": "Each hop sends half as many tokens, but how many hops are there?",
         "double": "There are about twice as many hops, but how much does each send?",
         None: 'Answer "half", "same" or "double".'},
     "GiB of all-reduces": {
         3.5: "Every piece goes round the ring twice: once to collect the sum, once to distribute "
              "it.",
         4: "That is what it hands over. A ring sends 2 (p − 1)/p of it.",
         8: "A rank sends p − 1 pieces twice, not p pieces.",
         14: "It is 2 (p − 1)/p of what is handed over, which is 4 GiB.",
         28: "That is p − 1 whole tensors for each all-reduce; a piece is 1/p of one, and goes "
             "round twice.",
         56: "That is 2 (p − 1) whole tensors; a piece is 1/p of one.",
         None: "It is 2 (p − 1)/p times what is handed over."}})


def _zigzag(program):
    """Judge zigzag(p)."""
    for p in (2, 4, 3, 8):
        answer = program(p)
        try:
            pieces = np.asarray(answer)
        except ValueError:
            pieces = np.empty(0)
        if pieces.shape != (p, 2) or pieces.dtype.kind not in "iu":
            return f"For p = {p} it must return {p} pairs of integers, one for each rank."
        if sorted(pieces.flat) != list(range(2 * p)):
            return (f"For p = {p}, each piece from 0 to {2 * p - 1} must belong to one rank; yours "
                    f"are {sorted(pieces.flatten().tolist())}.")
        work = pieces.sum(axis=1) + 1  # the whole squares of a rank, and two halves
        if len(set(work.tolist())) > 1:
            least, most = int(work.argmin()), int(work.argmax())
            return (f"For p = {p}, rank {least} with pieces {pieces[least].tolist()} computes the "
                    f"pairs of {work[least]} squares, rank {most} with {pieces[most].tolist()} "
                    f"those of {work[most]}. (A square is one piece against one piece.)")
    return ""


check = Check({
    "sent_in_rings": Exercise(SENT, (
        "A hop of the ring sends keys and values of 4096/8 tokens; there are 7 hops.",
        "A number has 2 bytes. With sixteen ranks a hop sends half as much; count the hops.",
        "In an all-reduce, a rank sends 2 (p − 1) pieces, and each is 1/p of the tensor."),
        "In both cases the bytes that a rank sends hardly depend on the number of ranks, but its "
        "work shrinks. So with enough ranks, sending takes longer than computing."),
    "zigzag": Exercise(_zigzag, (
        "Piece n attends to the n pieces before it, and to half of itself. Add this up for a rank.",
        "What must the numbers of a rank's two pieces add up to, if all ranks have the same sum?",
        "Pair the first piece with the last, and the second with the one before the last."),
        "Early pieces attend to few keys, late ones to many: with one of each, all ranks have the "
        "same number of pairs. This also holds in every single step of the ring."),
})
