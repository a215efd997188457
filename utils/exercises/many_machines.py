"""The exercises of the chapter on many machines."""

import numpy as np

from utils.exercises._check import Check, Exercise
from utils.exercises._judges import predictions

WHERE = predictions(
    {"GiB handed over": 4, "GiB on the wire": 7, "MiB of a ring": 56, "sixteen": "same"},
    {"GiB handed over": {
        2: "Count forward and backward, in attention and in the feed-forward layer.",
        1: "How many all-reduces has a block? Count forward and backward, attention and "
           "feed-forward.",
        6: "That is for q, k and v as three separate projections.", 0.125: "That is for one block.",
        0.5: "Each rank hands over whole outputs, not an eighth of them.",
        7: "That is what it sends, the next answer.", 8: "A bfloat16 number has 2 bytes.",
        32: "That is for all eight machines together.",
        4.294967296: "A GiB has 1024 · 1024 · 1024 bytes.", 4096: "That is in MiB.",
        4294967296: "That is in bytes.",
        None: "A block has four all-reduces, each of one output, 4096 · 4096 numbers."},
     "GiB on the wire": {
         3.5: "Every piece goes round the ring twice: once to collect the sum, once to distribute "
              "it.",
         4: "That is what it hands over. A ring sends 2 (p − 1)/p of it.",
         8: "A rank sends p − 1 pieces twice, not p pieces.",
         14: "It is 2 (p − 1)/p of what is handed over, which is 4 GiB.",
         28: "That is p − 1 whole tensors for each all-reduce; a piece is 1/p of one, and goes "
             "round twice.",
         56: "That is 2 (p − 1) whole tensors; a piece is 1/p of one.",
         None: "It is 2 (p − 1)/p times what is handed over."},
     "MiB of a ring": {
         28: "A hop sends keys, and what else?", 64: "There are p − 1 hops, not p.",
         8: "That is for one hop.", 112: "Count the forward pass only, and 2 bytes a number.",
         448: "That is for all keys and values in each hop; a rank sends those of 512 tokens.",
         1792: "That is for 32 layers, not for one.",
         58.720256: "A MiB has 1024 · 1024 bytes.", 58720256: "That is in bytes.",
         None: "There are p − 1 hops, and each sends the keys and the values of 512 tokens, 4096 "
               "numbers each."},
     "sixteen": {
         "half": "Each hop sends half as many tokens, but how many hops are there?",
         "double": "There are about twice as many hops, but how much does each send?",
         None: 'Answer "half", "same" or "double".'}})


def _rows(program):
    """Judge rows_of_a_rank(rank, p, n_heads, d_head)."""
    for p, n_heads, d_head in ((2, 4, 3), (4, 12, 2), (3, 6, 5)):
        owners = {}
        for rank in range(p):
            answer = program(rank, p, n_heads, d_head)
            where = f"With {n_heads} heads of {d_head} on {p} ranks, for rank {rank}: "
            problem = _form(answer, n_heads * d_head, p) or _heads(
                *map(np.asarray, answer), n_heads * d_head, d_head)
            if problem:
                return where + problem
            for head in sorted({int(column) // d_head for column in np.asarray(answer[1])}):
                owners.setdefault(head, []).append(rank)
        twice = [head for head, ranks in owners.items() if len(ranks) > 1]
        if twice:
            return (f"With {n_heads} heads on {p} ranks, head {twice[0]} is on ranks "
                    f"{owners[twice[0]]}, so it counts more than once in the sum.")
    return ""


def _form(answer, width, p):
    """Return what is wrong with the form of (rows, columns), "" if nothing is."""
    if not isinstance(answer, list | tuple) or len(answer) != 2:
        return "it must return two lists, (rows, columns)."
    try:
        rows, columns = (np.asarray(part) for part in answer)
    except ValueError:
        return "it must return two lists of integers."
    if any(part.ndim != 1 or part.dtype.kind not in "iu" for part in (rows, columns)):
        return "it must return two lists of integers."
    share = width // p
    if len(rows) == share == len(columns):
        return f"{len(rows)} rows are enough for one projection, but W_qkv contains three."
    if len(rows) != 3 * share or len(columns) != share:
        return (f"a fair share is {3 * share} rows and {share} columns, not {len(rows)} and "
                f"{len(columns)}.")
    if not (rows.min() >= 0 and rows.max() < 3 * width
            and columns.min() >= 0 and columns.max() < width):
        return f"rows must be 0 to {3 * width - 1} and columns 0 to {width - 1}."
    return ""


def _heads(rows, columns, width, d_head):
    """Return which heads do not belong together, "" if all do."""
    rows = rows.reshape(3, -1)
    sides, (q, k, v) = rows // width, rows % width
    if (sides != [[0], [1], [2]]).any():
        names = ", ".join("".join("qkv"[n] for n in dict.fromkeys(side.tolist())) for side in sides)
        return f"chunk(3) splits its rows into q, k and v, but here they are rows of {names}."
    for name, side in (("k", k), ("v", v)):
        if set(side.tolist()) != set(q.tolist()):
            return f"its q and its {name} belong to different heads."
        if (side != q).any():
            return f"its q and its {name} belong to the same heads, but in different orders."
    head = q // d_head
    if (head.reshape(-1, d_head) != head[::d_head, None]).any():
        return (f"its dimensions {q.tolist()} mix several heads: the {d_head} dimensions of a head "
                "must be neighbours.")
    if set(columns.tolist()) != set(q.tolist()):
        return "the columns of W_o do not belong to the heads of this rank."
    if (columns != q).any():
        return "the columns of W_o are the right ones, but in another order than the rows."
    return ""


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
    "rows_of_a_rank": Exercise(_rows, (
        "A rank with heads 3 to 5 of twelve needs the dimensions of heads 3 to 5: which are they?",
        "Those are its columns of W_o. W_qkv contains each of them three times, once in each "
        "third.",
        "The row of dimension c is c in q's third, h d + c in k's, 2 h d + c in v's."),
        "Each rank has the same heads of q, of k and of v, and the columns of W_o for them, "
        "so the sum of all parts is the sum over all heads."),
    "what_goes_where": Exercise(WHERE, (
        "One output has 4096 · 4096 numbers of 2 bytes: 32 MiB.",
        "A block has two all-reduces forward and two backward, and there are 32 blocks.",
        "A hop of the ring sends keys and values of 4096/8 tokens; there are 7 hops."),
        "The bytes that a machine sends hardly depend on the number of machines, but its work "
        "shrinks. So with enough machines, sending takes longer than computing."),
    "zigzag": Exercise(_zigzag, (
        "Piece n attends to the n pieces before it, and to half of itself. Add this up for a rank.",
        "What must the numbers of a rank's two pieces add up to, if all ranks have the same sum?",
        "Pair the first piece with the last, and the second with the one before the last."),
        "Early pieces attend to few keys, late ones to many: with one of each, all ranks have the "
        "same number of pairs. This also holds in every single step of the ring."),
})
