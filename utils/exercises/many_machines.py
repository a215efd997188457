"""The exercises of the chapter on many machines."""

import numpy as np

from utils.exercises._check import Check, Exercise, predictions

WHERE = predictions(
    {"GiB handed over": 4, "GiB on the wire": 7, "MiB of a ring": 56, "sixteen": "same"},
    {"GiB handed over": {
        2: "There and back, in attention and in the feed-forward layer.",
        1: "How many all-reduces has a block? Count there and back, attention and feed-forward.",
        6: "That is with q, k and v not joined.", 0.125: "That is one block.",
        0.5: "Each rank hands over whole outputs, not an eighth.",
        7: "That is what goes over the wire.", 8: "bfloat16 has 2 bytes.",
        32: "All eight together? One of them was meant.",
        4.294967296: "In GiB: 1024 · 1024 · 1024 bytes.", 4096: "That is in MiB.",
        4294967296: "That is in bytes.",
        None: "Four all-reduces a block, each of one output, 4096 · 4096 numbers."},
     "GiB on the wire": {
         3.5: "Every piece goes round twice: once collecting, once complete.",
         4: "That is what is handed over. A ring sends 2 (p − 1)/p of it.",
         8: "Not p pieces twice but p − 1: the last one need not be sent.",
         14: "2 (p − 1)/p of what is handed over, and that is 4 GiB.",
         28: "That is p − 1 whole tensors each time; a piece is 1/p of one, and goes round twice.",
         56: "That is 2 (p − 1) whole tensors; a piece is 1/p of one.",
         None: "2 (p − 1)/p times what is handed over."},
     "MiB of a ring": {
         28: "Keys, and what else?", 64: "p − 1 hops: the last one need not be sent.",
         8: "That is one hop.", 112: "Forward only, and 2 bytes a number.",
         448: "That is all keys and values in each hop; a rank passes on those of 512 words.",
         1792: "One layer, not 32.",
         58.720256: "In MiB: 1024 · 1024 bytes.", 58720256: "That is in bytes.",
         None: "p − 1 hops, and in each the keys and the values of 512 words, 4096 wide."},
     "sixteen": {
         "half": "Half as many words go in each hop, and how many hops are there?",
         "double": "Twice as many hops, and how much goes in each?",
         None: '"half", "same" or "double".'}})


def _rows(program):
    """Return what is wrong with rows_of_a_rank(rank, p, n_heads, d_head), "" if nothing is."""
    for p, n_heads, d_head in ((2, 4, 3), (4, 12, 2), (3, 6, 5)):
        owners = {}
        for rank in range(p):
            answer = program(rank, p, n_heads, d_head)
            where = f"{n_heads} heads of {d_head} on {p} ranks, rank {rank}: "
            problem = _form(answer, n_heads * d_head, p) or _thirds(
                *map(np.asarray, answer), n_heads * d_head, d_head)
            if problem:
                return where + problem
            for head in sorted({int(column) // d_head for column in np.asarray(answer[1])}):
                owners.setdefault(head, []).append(rank)
        twice = [head for head, ranks in owners.items() if len(ranks) > 1]
        if twice:
            return (f"{n_heads} heads on {p} ranks: head {twice[0]} is with ranks "
                    f"{owners[twice[0]]}, so it counts more than once in the sum.")
    return ""


def _form(answer, width, p):
    """Return what is wrong with the form of (rows, columns), "" if nothing is."""
    if not isinstance(answer, list | tuple) or len(answer) != 2:
        return "two lists are asked for, (rows, columns)."
    try:
        rows, columns = (np.asarray(part) for part in answer)
    except ValueError:
        return "two lists of integers are asked for."
    if any(part.ndim != 1 or part.dtype.kind not in "iu" for part in (rows, columns)):
        return "two lists of integers are asked for."
    share = width // p
    if len(rows) == share == len(columns):
        return f"{len(rows)} rows are those of one projection. W_qkv holds three."
    if len(rows) != 3 * share or len(columns) != share:
        return (f"a fair share are {3 * share} rows and {share} columns, not {len(rows)} and "
                f"{len(columns)}.")
    if not (rows.min() >= 0 and rows.max() < 3 * width
            and columns.min() >= 0 and columns.max() < width):
        return f"rows are 0 to {3 * width - 1} and columns 0 to {width - 1}."
    return ""


def _thirds(rows, columns, width, d_head):
    """Return which heads do not fit together, "" if all do."""
    sides, features = rows.reshape(3, -1) // width, rows.reshape(3, -1) % width
    if (sides != [[0], [1], [2]]).any():
        calls = ", ".join("".join("qkv"[n] for n in dict.fromkeys(side.tolist()))
                          for side in sides)
        return (f"chunk(3) makes of its rows what it calls q, k and v, but they are rows of "
                f"{calls}.")
    for name, side in zip("kv", features[1:], strict=True):
        if set(side.tolist()) != set(features[0].tolist()):
            return f"its q and its {name} are not of the same heads."
        if (side != features[0]).any():
            return f"its q and its {name} are of the same heads, but in another order."
    if (features[0].reshape(-1, d_head) // d_head != features[0][::d_head, None] // d_head).any():
        return f"its features {features[0].tolist()} are torn: a head's {d_head} stay together."
    if set(columns.tolist()) != set(features[0].tolist()):
        return "the columns of W_o are not those of the heads that the rank has."
    if (columns != features[0]).any():
        return "the columns of W_o are the right ones, but not in the order of the features."
    return ""


def _zigzag(program):
    """Return what is wrong with zigzag(p), "" if nothing is."""
    for p in (2, 4, 3, 8):
        answer = program(p)
        try:
            pieces = np.asarray(answer)
        except ValueError:
            pieces = np.empty(0)
        if pieces.shape != (p, 2) or pieces.dtype.kind not in "iu":
            return f"for p = {p}, {p} pairs of integers are asked for, one for each rank."
        if sorted(pieces.flat) != list(range(2 * p)):
            return (f"for p = {p}, each of the pieces 0 to {2 * p - 1} belongs to one rank; yours "
                    f"are {sorted(pieces.flatten().tolist())}.")
        work = pieces.sum(axis=1) + 1  # whole pieces seen, and two halves
        if len(set(work.tolist())) > 1:
            least, most = int(work.argmin()), int(work.argmax())
            return (f"for p = {p}, rank {least} with pieces {pieces[least].tolist()} computes the "
                    f"pairs of {work[least]} squares, rank {most} with {pieces[most].tolist()} "
                    f"those of {work[most]}. (A square is one piece against one piece.)")
    return ""


check = Check({
    "rows_of_a_rank": Exercise(_rows, (
        "A rank with heads 3 to 5 of twelve needs the features of heads 3 to 5: which are they?",
        "Those are its columns of W_o. In W_qkv they come three times, in each third once.",
        "The row of feature c is c in q's third, h d + c in k's, 2 h d + c in v's."),
        "Each rank has the same heads of q, of k and of v, and the columns of W_o that read them, "
        "so the sum of all parts is the sum over all features."),
    "what_goes_where": Exercise(WHERE, (
        "One output has 4096 · 4096 numbers of 2 bytes: 32 MiB.",
        "A block: two all-reduces there, two back, and there are 32 blocks.",
        "A hop of the ring passes on keys and values of 4096/8 words; there are 7."),
        "What goes over the wire hardly depends on the number of machines, and their work shrinks "
        "with it: there is always a number at which sending costs more."),
    "zigzag": Exercise(_zigzag, (
        "Piece n attends to the n pieces before it, and to half of itself. Add that up for a rank.",
        "What must the two numbers of each rank add up to, if all sums are equal?",
        "The first goes with the last, the second with the last but one."),
        "Early pieces have little to look back on, late ones much: one of each, and everybody has "
        "the same. In every step, too, since two ranks that meet have two squares between them."),
})
