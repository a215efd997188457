"""The exercises of the chapter on masks."""

import math

import numpy as np

from ..masks import causal
from ._check import Check, Exercise
from ._judges import predictions
from ._masks_batch import batch


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
    "batch": Exercise(batch, (
        "Find the longest sentence, make an array of zeros, and write each sentence into the end "
        "of its row.",
        "Which keys are real follows from the lengths alone: in a row of n, the last lengths[b] "
        "ones. The number of a token does not tell it.",
        "real is (b, n). The causal mask is (n, n). Give real an axis for the queries, "
        "real[:, None], and combine the two with &."),
        "This is the step between a tokeniser and every model that continues texts. The rows of "
        "padded queries may hold anything: nothing reads their contexts."),
})
