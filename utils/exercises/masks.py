"""The exercises of the chapter on masks."""

import math

import numpy as np

from utils.checks import to_numpy
from utils.exercises._check import Check, Exercise
from utils.exercises._judges import parts, predictions
from utils.masks import causal

SIZES = {"2x5": (2, 5), "5x2": (5, 2)}
OTHER = {"top_left": "bottom_right", "bottom_right": "top_left"}


def _grid(name):
    """Return the judge of one causal mask, such as "2x5 top_left"."""
    size, align = name.split()
    n_q, n_k = SIZES[size]
    right = causal(n_q, n_k, align)
    own = np.eye(n_q, n_k, 0 if align == "top_left" else n_k - n_q, dtype=bool)
    known = ((right, ""),
             (causal(n_q, n_k, OTHER[align]), "this grid has the other causal alignment."),
             (~right, "1 means that the query may attend; you marked what is masked."),
             (right & ~own, "a query may attend to the key at its own position, too."))

    def judge(grid):
        grid = np.array(to_numpy(grid))
        if grid.shape != (n_q, n_k):
            return (f"{n_q} queries and {n_k} keys make {n_q} rows of {n_k} numbers; yours has the "
                    f"shape {grid.shape}.")
        if not np.isin(grid, (0, 1)).all():
            return "write 1 where a query may attend and 0 where it may not, and nothing else."
        for wrong, message in known:
            if (grid == wrong).all():
                return message
        row = int(np.flatnonzero((grid != right).any(axis=1))[0])
        end = "first" if align == "top_left" else "last"
        return (f"row {row} is wrong. Which key has the position of query {row}, if the {end} "
                f"query and the {end} key have the same position?")

    return judge


def _prefix(prefix):
    for n, question in ((7, 3), (9, 4), (5, 1)):
        keep = np.asarray(prefix(n, question))
        if keep.shape != (n, n):
            return f"prefix({n}, {question}) has the shape {keep.shape}, not ({n}, {n})."
        if keep.dtype != bool:
            return (f"A mask must be bool; yours is {keep.dtype}, so it would be *added* to the "
                    "scores.")
        inside, past = np.arange(n) < question, causal(n)
        right = past | inside
        case = f" (n = {n}, question = {question})"
        for known, message in (
                (right, ""),
                (past, "This is the plain causal mask: no question token attends to a later one."),
                (past & inside, "& removes pairs: here answer tokens cannot attend to the answer "
                                "so far. To allow more pairs, use |."),
                (past | inside[:, None], "Here question tokens attend to the answer, which is not "
                                         "written yet: which axis holds the keys?"),
                (~right, "True must mean that the query may attend: yours is inverted.")):
            if (keep == known).all():
                if message:
                    return message + case
                break
        else:
            i, j = np.argwhere(keep != right)[0]
            may = "may" if right[i, j] else "may not"
            return f"Query {i} {may} attend to key {j}{case}; yours says the opposite."
    return ""


check = Check({
    "three_programs": Exercise(predictions(  # B's odds from two digits: 2.64 to 2.81
        {"A": "inverted", "B": "added", "C": "right", "factor": math.e},
        {"A": "Which two keys got all the weight, and what does keep say about them?",
         "B": {"right": "Masked keys still get 0.27 of the weight.",
               "inverted": "All four keys get weight, so none of them is masked.",
               None: "Is it right, inverted or added?"},
         "C": "Divide 0.40 and 0.10 by their sum.",
         "factor": {1.0: "That is the number added to the *scores*. The odds are a ratio of exps.",
                    3.625: "Those are the odds after. By what factor have they changed?",
                    1.45: "By that factor its *weight* grew. Odds are a ratio of two weights.",
                    0.37: "That is the factor for a masked key against an allowed one.",
                    None: "Odds are ratios: 0.40 / 0.30 before. What are they after?"}}, 0.04), (
        "Compare each program with the weights without a mask: which keys lost weight, which "
        "gained?",
        "If masked keys keep some weight, the mask did not remove them. What turns odds of "
        "0.40 : 0.30 into 0.58 : 0.16?",
        "Softmax divides exp by a sum: if you add c to a score, its odds are multiplied by "
        "exp(c)."),
        "Adding 1 to a score multiplies its odds by e; a mask must make them infinite."),
    "prefix": Exercise(_prefix, (
        "There are two reasons to allow a pair: the key is not later than the query, or the key "
        "belongs to the question.",
        "Join reasons to allow by |. np.arange(n) < question says which tokens belong to the "
        "question.",
        "causal(n) has the axes (i, j). A condition on keys, (j,), broadcasts to it as it is."),
        "There are two reasons to allow a pair, so they are joined by |."),
    "corners": Exercise(parts({f"{size} {align}": _grid(f"{size} {align}")
                               for size in SIZES for align in OTHER}), (
        "A causal mask lets query i attend to the keys up to its own position. The two alignments "
        "differ in the position of query 0.",
        "From the top left, query 0 has the position of key 0. From the bottom right, the *last* "
        "query has the position of the last key: shift the diagonal until it ends there.",
        "Take 5 queries and 2 keys from the bottom right: the last query attends to both keys, the "
        "one before to one key. How many keys are left for the first three?"),
        "Only 5 x 2 from the bottom right has fully masked rows. If you meet this mask, ask "
        "whether the two sizes were swapped."),
})
