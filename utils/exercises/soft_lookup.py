"""The exercises of the chapter on the soft lookup."""

import numpy as np

from utils.attention.numpy import softmax
from utils.exercises._check import Check, Exercise, predictions
from utils.exercises._points import one_dot_product
from utils.exercises._watched import Watched


def _over_queries(scores):
    exps = np.exp(scores)
    return exps / exps.sum(axis=0)


def _single(scores):
    return softmax(scores.astype(np.float32))


def _exact(scores):
    """Return weights in units of 2^-20, so that every row sums to 1 without any rounding."""
    weights = np.round(softmax(scores) * 2.0 ** 20) / 2.0 ** 20
    weights[..., :1] += 1 - weights.sum(axis=-1, keepdims=True)
    return weights


def _complains(check, program):
    """Return (whether the reader's check calls a softmax wrong, the scores that it was given)."""
    watched = Watched(program)
    try:
        verdict = bool(check(watched))
    except AssertionError:  # as good as True
        verdict = True
    return verdict, [np.asarray(call[0], dtype=float) for call in watched.calls]


def _find_the_bug(check):
    false_alarm, scores = _complains(check, softmax)
    caught, _ = _complains(check, _over_queries)
    if not scores:
        return "Your check never calls the softmax that it is given."
    if caught and _minds_rounding(check, false_alarm):
        return ("It catches the bug, but calls a right softmax wrong for a rounding error. Compare "
                "with a tolerance.")
    if false_alarm and caught:
        return ("It catches the bug, but it also calls a right softmax wrong: a false alarm. What "
                "do the rows and columns of right weights sum to?")
    if false_alarm:
        return _mistaken(check)
    if not caught:
        return _missed(scores)
    size = max(given.size for given in scores)
    return "" if size <= 2 else (
        f"It catches the bug and raises no false alarm, with {size} scores. Fewer will do: what "
        "does the colleague return when there is but one query, or one key?")


def _minds_rounding(check, false_alarm):
    """Return whether a check calls a softmax wrong, or a coarser one, for a rounding error."""
    return not _complains(check, _exact)[0] if false_alarm else _complains(check, _single)[0]


def _mistaken(check):
    """Return what to tell of a check that calls the right softmax wrong and lets the bug pass."""
    if _complains(check, lambda scores: 0 * scores)[0]:
        return ("It calls the right softmax wrong and lets the bug pass: you ask for the sum that "
                "the bug gets right. Each query has one vote to spend: is that a row or a column?")
    return "It is upside down: True means that the softmax is wrong."


def _missed(scores):
    """Return why a check may let the bug pass, judged by the scores that it gave."""
    if all(given.ndim < 2 for given in scores):
        return ("The bug passes. On a single axis, axis 0 *is* the last one: give it queries and "
                "keys, (i, j).")
    if all(np.allclose(_over_queries(given), softmax(given)) for given in scores):
        shapes = " and ".join(sorted({str(given.shape) for given in scores}))
        return (f"The bug passes, for on your scores, {shapes}, its weights *are* right. On which "
                "scores do rows and columns differ?")
    return ("The bug passes. Its weights are wrong on your scores, but you look at what it does "
            "right: its shape, its numbers between 0 and 1, its columns that sum to 1.")


check = Check({
    "one_dot_product": Exercise(one_dot_product, (
        "The product of two one-hot vectors is 1 if they are equal and 0 if not. One character "
        "takes 128 numbers: how many take six?",
        "Give every place a block of 128 of its own. Where two blocks agree, the product gains 1; "
        "it should gain n + 1 in place n.",
        "rows[..., None] == np.arange(128) is (…, 6, 128). Stretch the six blocks of one side by "
        "the points, then reshape to (…, 768)."),
        "A product of one-hot blocks asks “equal?” six times at once. The points may go to either "
        "side, or their square roots to both."),
    "shift_and_stretch": Exercise(predictions(
        {"a": True, "b": True, "c": False, "d": False, "doubled": 16 / 17},
        {"a": "By what are all exponentials multiplied, and what does the division do with that?",
         "b": "Take one row: is what you add shared by all keys of that query?",
         "c": "A column is one key. Whom does it help if that key alone scores more?",
         "d": "Which β is this?",
         "doubled": {1.6: "The *score* is doubled. Weights still sum to 1.",
                     1.0: "Only β = ∞ gives everything to the best key.",
                     0.8: "Then doubling would do nothing at all.",
                     0.64: "Squared, yes. But then 0.64 and 0.04 do not sum to 1.",
                     8 / 9: "The odds 4 : 1 have become 8 : 1; adding a number to a score does "
                            "that. What does doubling both scores do to their *difference*?",
                     None: "The odds are 4 : 1 now, exp of the difference of two scores. Double "
                           "that difference."}}, 0.02), (
        "What all keys of one query share leaves through the division. Which of the four changes "
        "adds something shared?",
        "Compare two keys of one query: the ratio of their weights is exp of the difference of "
        "their scores. Which changes leave every such difference alone?",
        "0.8 : 0.2 is 4 : 1, so the scores are ln 4 apart, and after doubling 2 ln 4."),
        "A row is one query's votes: what its keys share cancels. Stretching is another β, and "
        "raises all odds to a power: 4 : 1 becomes 16 : 1."),
    "find_the_bug": Exercise(_find_the_bug, (
        "Over which axis does the colleague's sum run: over the queries or over the keys?",
        "Row i holds the votes of query i. What must they sum to, and what do the colleague's?",
        "Try scores with a single row. Every column then holds one number; divide it by the sum of "
        "its column."),
        "One query and two keys are enough: in a column of one number, x / x is 1, so the row sums "
        "to 2. A square of equal scores would have shown nothing."),
})
