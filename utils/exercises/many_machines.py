"""The exercises of the chapter on many machines."""

import numpy as np

from ._check import Check, Exercise
from ._judges import predictions

HANDED = predictions(
    {"GiB joined": 4, "GiB not joined": 6, "sixteen": "same"},
    {"GiB joined": {
        2: "Count forward and backward, in attention and in the feed-forward layer.",
        1: "How many all-reduces has a block? Count forward and backward, attention and "
           "feed-forward.",
        6: "That is for q, k and v as three separate projections.", 0.125: "That is for one block.",
        0.5: "Each rank hands over whole outputs, not an eighth of them.",
        7: "That is what it would send if each all-reduce were done in a ring. The question is "
           "what it hands over.",
        8: "A bfloat16 number has 2 bytes.",
        32: "That is for all eight ranks together.",
        4.294967296: "A GiB has 1024 · 1024 · 1024 bytes.", 4096: "That is in MiB.",
        4294967296: "That is in bytes.",
        None: "A block has four all-reduces, each of one output, 4096 · 4096 numbers."},
     "GiB not joined": {
         4: "That is for q, k and v joined.",
         8: "Attention has three all-reduces backward instead of one. How many has the "
            "feed-forward layer?",
         12: "Only the backward pass of attention has three times as many all-reduces.",
         5: "q, k and v each need an all-reduce of their own: how many are they more than one?",
         6.442450944: "A GiB has 1024 · 1024 · 1024 bytes.", 6144: "That is in MiB.",
         None: "Not joined, the backward pass of attention has three all-reduces instead of one."},
     "sixteen": {
         "half": "A rank computes half as much, but how large is the output that it hands over?",
         "double": "All ranks together hand over twice as much, but how much does one rank?",
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


check = Check({
    "rows_of_a_rank": Exercise(_rows, (
        "A rank with heads 3 to 5 of twelve needs the dimensions of heads 3 to 5: which are they?",
        "Those are its columns of W_o. W_qkv contains each of them three times, once in each "
        "third.",
        "The row of dimension c is c in q's third, h d + c in k's, 2 h d + c in v's."),
        "Each rank has the same heads of q, of k and of v, and the columns of W_o for them, "
        "so the sum of all parts is the sum over all heads."),
    "handed_over": Exercise(HANDED, (
        "One output has 4096 · 4096 numbers of 2 bytes: 32 MiB.",
        "A joined block has two all-reduces forward and two backward, and there are 32 blocks.",
        "Not joined, q, k and v each have an all-reduce backward, so a block has six."),
        "The bytes that a rank hands over do not depend on the number of ranks, but its work "
        "shrinks. So with enough ranks, sending takes longer than computing."),
})
