"""The exercises of the chapter on masks."""

import math

import numpy as np

from utils.checks import to_numpy
from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, predictions
from utils.masks import causal

SIZES = {"2x5": (2, 5), "5x2": (5, 2)}
CORNERS = {"top_left": "bottom_right", "bottom_right": "top_left"}


def _corners(grids):
    expected = {f"{size} {align}": causal(*n, align) for size, n in SIZES.items()
                for align in CORNERS}
    if not isinstance(grids, dict) or set(grids) != set(expected):
        return f"The answer is a dict with the keys {', '.join(map(repr, expected))}."
    return listed([f"{name}: {why}" for name in expected if (why := _grid(name, grids[name]))])


def _grid(name, grid):
    """Return what is wrong with one causal mask, "" if nothing is."""
    size, align = name.split()
    n_q, n_k = SIZES[size]
    if grid is None or grid is ...:
        return "still open."
    grid = np.array(to_numpy(grid))
    if grid.shape != (n_q, n_k):
        return (f"{n_q} queries and {n_k} keys make {n_q} rows of {n_k} numbers; yours has the "
                f"shape {grid.shape}.")
    if not np.isin(grid, (0, 1)).all():
        return "write 1 where a query may attend and 0 where it may not, and nothing else."
    right, grid = causal(n_q, n_k, align), grid.astype(bool)
    for wrong, why in ((right, ""),
                       (causal(n_q, n_k, CORNERS[align]), "this one hangs from the other corner."),
                       (~right, "1 means may attend; you drew what is hidden."),
                       (causal(n_q, n_k, align) & ~np.eye(n_q, n_k, _offset(n_q, n_k, align),
                                                          dtype=bool),
                        "one off: a query may attend to the key at its own position.")):
        if (grid == wrong).all():
            return why
    row = int(np.flatnonzero((grid != right).any(axis=1))[0])
    return (f"look at query {row}. Which key stands at its own position, if the "
            f"{'first' if align == 'top_left' else 'last'} ones of both sides stand together?")


def _offset(n_q, n_k, align):
    return 0 if align == "top_left" else n_k - n_q


def _prefix(prefix):
    for n, question in ((7, 3), (9, 4), (5, 1)):
        keep = np.asarray(prefix(n, question))
        if keep.shape != (n, n):
            return f"prefix({n}, {question}) has the shape {keep.shape}, not ({n}, {n})."
        if keep.dtype != bool:
            return f"A mask is bool; yours is {keep.dtype}, and would be *added* to the scores."
        inside, past = np.arange(n) < question, causal(n)
        if (keep == (past | inside)).all():
            continue
        where = f" (n = {n}, question = {question})"
        for wrong, why in (
                (past, "This is the plain causal mask: question words cannot look ahead."),
                (past & inside, "& forbids: answer words no longer see the answer so far. What "
                                "allows more is joined by |."),
                (past | inside[:, None], "Question words now see the answer, which is not written "
                                         "yet: which axis are the keys?"),
                (~(past | inside), "True = may attend: yours is upside down.")):
            if (keep == wrong).all():
                return why + where
        i, j = np.argwhere(keep != (past | inside))[0]
        may = "may not" if keep[i, j] else "may"
        return f"Query {i} {may} attend to key {j}" + where + "; yours says the opposite."
    return ""


check = Check({
    "corners": Exercise(_corners, (
        "A causal mask lets query i see the keys up to its own position. The two corners differ in "
        "what the position of query 0 is.",
        "From the top left, query 0 stands at key 0. From the bottom right, the *last* query "
        "stands at the last key: move the staircase until it ends there.",
        "5 queries and 2 keys from the bottom right: the last query sees both keys, the one before "
        "sees one. How many are left for the first three?"),
        "Only 5 x 2 from the bottom right has empty rows: if you meet it, ask whether the sizes "
        "were swapped."),
    "three_programs": Exercise(predictions(  # B's odds from two digits: 2.64 to 2.81
        {"A": "inverted", "B": "added", "C": "right", "factor": math.e},
        {"A": "Which two keys got all the weight, and what does keep say of them?",
         "B": {"right": "Forbidden keys still get 0.27 of the weight.",
               "inverted": "All four keys are heard: nothing was hidden at all.",
               None: "Is it right, inverted or added?"},
         "C": "Divide 0.40 and 0.10 by their sum.",
         "factor": {1.0: "That is the number added to the *scores*. The odds are a ratio of exps.",
                    3.625: "Those are the odds after. By what factor have they changed?",
                    1.45: "By that its *weight* grew. Odds are a ratio of two weights.",
                    0.37: "That is the factor for a forbidden key against an allowed one.",
                    None: "Odds are ratios: 0.40 / 0.30 before. And after?"}}, 0.04), (
        "Compare each with the weights without a mask: which keys lost weight, which gained?",
        "If the forbidden keys keep some weight, they were not hidden. What turns odds of "
        "0.40 : 0.30 into 0.58 : 0.16?",
        "Softmax is exp over a sum: whoever adds c to a score multiplies its odds by exp(c)."),
        "To add 1 to a score multiplies its odds by e; a mask makes them infinite."),
    "prefix": Exercise(_prefix, (
        "Two reasons to allow a pair: the key is not later than the query, or the key belongs to "
        "the question.",
        "Reasons to allow are joined by |. Who is a word of the question: np.arange(n) < question.",
        "causal(n) has the axes (i, j). A statement about keys, (j,), broadcasts to it as it is."),
        "Two reasons to allow, joined by |."),
})
