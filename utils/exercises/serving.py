"""The exercises of the chapter on serving."""

import copy

import numpy as np

from ._check import Check, Exercise
from ._judges import predictions

BLOCKS = predictions(
    {"blocks without sharing": 690, "blocks with sharing": 132,
     "prompt tokens without sharing": 10_000, "prompt tokens with sharing": 1000},
    {"blocks without sharing": {
        687.5: "Blocks are whole: each request rounds up.",
        688: "Each request rounds up by itself; two of them cannot share a last block.",
        700: "The prompt's last block is not full, and the request goes on in it: count the blocks "
             "of 1100 tokens.",
        680: "Each request rounds up, not down.", 69: "That is one request.",
        None: "How many blocks do 1100 tokens need? Round up, then count ten requests."},
     "blocks with sharing": {
         133: "The last writer has the half full block for itself by then: it needs no copy.",
         123: "That forgets the copies: 1000 tokens do not end with a block, and each request "
              "writes into the last one.",
         122: "That is the full blocks of the prompt and 6 for each request. Who holds the tokens "
              "992 to 999 of the prompt?",
         132.5: "Blocks are whole.", 690: "Nothing is shared so.",
         69: "Each request has 100 tokens of its own, and they are different.",
         None: "1000 tokens fill 62 blocks and half of another one. How many blocks hold what is a "
               "request's own, the copy of that half included?"},
     "prompt tokens without sharing": {
         1000: "Without sharing, each request computes its prompt.",
         11_000: "The 100 tokens of each request are not counted.",
         None: "Ten requests, and each computes its prompt."},
     "prompt tokens with sharing": {
         10_000: "With sharing, the others read the keys and values of the first one.",
         1090: "The prompt is computed once; copying a block computes nothing.",
         992: "The first request computes the whole prompt, also what does not fill a block.",
         None: "Who computes the prompt, and who only reads its keys and values?"}},
    tolerance=1e-4)


def _new_positions(program):
    """Judge new_positions(lengths, held)."""
    for lengths, held in ((np.array([3, 1, 4]), np.array([4, 2, 0])),
                          (np.array([1, 1]), np.array([9, 3])),
                          (np.array([2, 0, 3]), np.array([1, 5, 7]))):
        got = program(lengths.copy(), held.copy())
        if np.shape(got) != (lengths.sum(),):
            return (f"With lengths {lengths.tolist()} it must return {lengths.sum()} positions, "
                    f"one for each token of the row, not shape {np.shape(got)}.")
        got = np.asarray(got)
        for known, message in _known_positions(lengths, held):
            if np.array_equal(got, known):
                if message:
                    return message
                break
        else:
            return (f"With lengths {lengths.tolist()} and held {held.tolist()} the positions are "
                    f"{next(_known_positions(lengths, held))[0].tolist()}, not {got.tolist()}.")
        if got.dtype.kind not in "iu":
            return f"Positions must be integers, not {got.dtype}."
    return ""


def _known_positions(lengths, held):
    """Yield (positions, message), the right ones first."""
    row, first = np.arange(lengths.sum()), np.cumsum(lengths) - lengths
    yield row + np.repeat(held - first, lengths), ""
    yield (row - np.repeat(first, lengths),
           "Each chunk begins at 0 again: you do not use `held`, so RoPE rotates the new tokens as "
           "if they began the text.")
    yield row, "That counts along the row. Each sequence has positions of its own."
    yield (row + np.repeat(held, lengths),
           "You add `held`, but to the places in the row, which do not begin anew with each "
           "sequence.")
    yield (row + np.repeat(held - first, lengths) + 1,
           "All positions are 1 too large: with `held` tokens in the cache, 0 to held - 1 are "
           "taken.")
    yield (row + np.repeat(held - first, lengths) - 1,
           "All positions are 1 too small: held - 1 is the last token in the cache.")
    yield (row + np.repeat(held[0] - first, lengths),
           "You use `held` of the first sequence for all; each has its own.")
    yield np.repeat(held, lengths), "The tokens of one chunk stand behind one another."


CASES = {  # (table, length, users, free, size)
    "a last block with room": ([2], 3, [0, 0, 1, 0], [1, 3, 0], 4),
    "a full last block": ([2, 0], 8, [1, 0, 1, 0], [3, 1], 4),
    "a new sequence": ([], 0, [0, 1], [0], 4),
    "a shared last block with room": ([2, 0], 6, [2, 1, 2, 0], [3], 4),
    "a shared last block that is full": ([2, 0], 8, [2, 1, 2, 0], [3], 4),
    "a shared block, then one of its own": ([2, 0], 6, [1, 1, 2, 0], [3], 4)}


def _one_more(program):
    """Judge one_more(table, length, users, free, size)."""
    for case, before in CASES.items():
        given = copy.deepcopy(before)
        got = program(*given)
        if given != before:
            return f"With {case}, it changes its arguments: copy the lists first."
        if not isinstance(got, tuple | list) or len(got) != 3:
            return "It must return three lists: (table, users, free)."
        message = _explained(case, [list(part) for part in got], before)
        if message:
            return message
    return ""


def _explained(case, got, given):
    """Return what is wrong with the three lists in this case, or ""."""
    table, length, users, free, size = given
    want = _right(*given)
    if got == want:
        return ""
    full, shared = length % size == 0, bool(table) and users[table[-1]] > 1
    if got[0] == table and full:
        return f"With {case}, the new token needs a new block."
    if got[0] == table and shared:
        return (f"With {case}, the new token would be written into a block that another sequence "
                "reads: copy on write.")
    if full and shared and got[0] == [*table[:-1], free[0]]:
        return (f"With {case}, nothing will be written into it, so it needs no copy: the token "
                "goes into a new block, behind it.")
    if shared and got[0] == [*table, free[0]]:
        return (f"With {case}, the copy takes the place of the shared block in the table. Behind "
                "it, it would hold later tokens.")
    if not full and not shared and got[0] != table:
        return f"With {case}, the token fits, and nobody else reads that block: nothing changes."
    if got[0] == want[0] and got[1][want[0][-1]] != 1:
        return f"With {case}, the new block has 1 user, not {got[1][want[0][-1]]}."
    if got[0] == want[0] and shared and not full and got[1][table[-1]] == users[table[-1]]:
        return (f"With {case}, the block that was copied has one user fewer. Otherwise it never "
                "becomes free.")
    if got[:2] == want[:2]:
        return f"With {case}, the free list must be {want[2]}, not {got[2]}."
    return f"With {case}, {given[:3]} must become {want[:2]}, not {got[:2]}."


def _right(table, length, users, free, size):
    """Return the right (table, users, free)."""
    table, users, free = [*table], [*users], [*free]
    if length % size and users[table[-1]] == 1:
        return [table, users, free]
    if length % size:
        users[table.pop()] -= 1
    table.append(free.pop(0))
    users[table[-1]] = 1
    return [table, users, free]


check = Check({
    "new_positions": Exercise(_new_positions, (
        "np.arange counts along the row. What must be subtracted from the tokens of sequence b, so "
        "that they begin at 0?",
        "Sequence b begins at the sum of the lengths before it: np.cumsum(lengths) - lengths.",
        "np.repeat(x, lengths) gives each token the number of its sequence."),
        "A padded batch would need the same positions; the row only has no padding between them."),
    "blocks": Exercise(BLOCKS, (
        "1000 / 16 is 62.5, and 1100 / 16 is 68.75. Blocks are whole.",
        "The 62 full blocks of the prompt can be shared for good. The half full one is written by "
        "each request.",
        "The last request that writes finds that it is the only user of the half full block."),
        "Sharing saves memory and, since the prompt is computed once, most of the work, too."),
    "one_more": Exercise(_one_more, (
        "There are three cases: the last block has room and one user; it has room and is shared; "
        "it is full, or there is none.",
        "length % size is 0 exactly when the last block is full, or when there is none.",
        "A copy changes three things: the table, and the users of two blocks."),
        "Counting users is all that sharing needs; what is in the blocks, only a copy touches."),
})
