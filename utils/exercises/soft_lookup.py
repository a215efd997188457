"""The exercises of the chapter on the soft lookup."""

import numpy as np

from ..attention.numpy import softmax
from ._check import Check, Exercise
from ._judges import Recorded, predictions
from ._soft_lookup_writer import writer


def _over_queries(scores):
    exps = np.exp(scores)
    return exps / exps.sum(axis=0)


def _exact(scores):
    """Return weights in units of 2^-20, so that every row sums to 1 without any rounding."""
    weights = np.round(softmax(scores) * 2.0 ** 20) / 2.0 ** 20
    weights[..., :1] += 1 - weights.sum(axis=-1, keepdims=True)
    return weights


def _calls_wrong(check, program):
    """Return (whether the reader's check calls a softmax wrong, the scores that it passed)."""
    recorded = Recorded(program)
    try:
        verdict = bool(check(recorded))
    except AssertionError:  # counts as True
        verdict = True
    return verdict, [np.asarray(call[0], dtype=float) for call in recorded.calls]


def _find_the_bug(check):
    false_alarm, scores = _calls_wrong(check, softmax)
    caught, _ = _calls_wrong(check, _over_queries)
    if not scores:
        return "Your check never calls the softmax that it is given."
    if caught and _needs_tolerance(check, false_alarm):
        return ("It catches the bug, but it also calls a right softmax wrong because of a rounding "
                "error. Compare with a tolerance.")
    if false_alarm and caught:
        return ("It catches the bug, but it also calls a right softmax wrong: a false alarm. What "
                "do the rows and columns of right weights sum to?")
    if false_alarm:
        return _misses_and_false_alarm(check)
    if not caught:
        return _missed(scores)
    size = max(given.size for given in scores)
    if size > 2:
        return (f"It catches the bug and raises no false alarm, with {size} scores. Fewer are "
                "enough: what does the colleague return for a single query, or a single key?")
    return ""


def _needs_tolerance(check, false_alarm):
    """Return whether a check calls a softmax, or one in float32, wrong for a rounding error."""
    if false_alarm:
        return not _calls_wrong(check, _exact)[0]
    return _calls_wrong(check, lambda scores: softmax(scores.astype(np.float32)))[0]


def _misses_and_false_alarm(check):
    """Return the message for a check that calls only the right softmax wrong."""
    if _calls_wrong(check, lambda scores: 0 * scores)[0]:
        return ("It calls the right softmax wrong and misses the bug: you check the sums that the "
                "bug gets right. The weights of one query sum to 1: are they a row or a column?")
    return "Your result is inverted: True must mean that the softmax is wrong."


def _missed(scores):
    """Return why a check misses the bug, judged by the scores that it passed."""
    if all(given.ndim < 2 for given in scores):
        return ("It misses the bug. If scores have a single axis, axis 0 *is* the last one: pass "
                "scores with queries and keys, (i, j).")
    if all(np.allclose(_over_queries(given), softmax(given)) for given in scores):
        shapes = " and ".join(sorted({str(given.shape) for given in scores}))
        return (f"It misses the bug: on your scores, with shape {shapes}, its weights *are* right. "
                "For which scores do rows and columns differ?")
    return ("It misses the bug. The weights are wrong on your scores, but you check what is right "
            "about them: their shape, that they are between 0 and 1, or that columns sum to 1.")


check = Check({
    "writer": Exercise(writer, (
        "A one-hot vector has a single 1 and otherwise zeros. The dot product of two of them is 1 "
        "if they are equal and 0 if not. One character takes 128 numbers: how many do six take?",
        "Give every position a block of 128 numbers of its own. Where two blocks agree, the "
        "product grows by 1; at position n it should grow by n + 1.",
        "np.eye(128)[rows] is (n, 6, 128), a one-hot vector for each character. Multiply the six "
        "blocks of one side by the points, then reshape to (n, 768). The values need no points."),
        "So the lookup that writes is attention. A product of one-hot blocks asks “equal?” six "
        "times at once, and an average of one-hot values counts the characters that follow. A "
        "trained model learns both kinds of vectors instead."),
    "shift_and_stretch": Exercise(predictions(
        {"a": True, "b": True, "c": False, "d": False, "doubled": 16 / 17},
        {"a": "By what are all exponentials multiplied, and what does the division do with that?",
         "b": "Take one row: is what you add shared by all keys of that query?",
         "c": "A column is one key. What happens if only that key gets a larger score?",
         "d": "Which β is this?",
         "doubled": {1.6: "The *score* is doubled, and the weights still sum to 1.",
                     1.0: "Only β = ∞ gives the whole weight to the best key.",
                     0.8: "Then doubling would change nothing at all.",
                     0.64: "That is 0.8 squared. But then 0.64 and 0.04 do not sum to 1.",
                     8 / 9: "You doubled the odds from 4 : 1 to 8 : 1, which happens if you add a "
                            "number to a score. How does doubling both scores change their "
                            "*difference*?",
                     None: "The odds are 4 : 1 now, which is exp of the difference of two scores. "
                           "Double that difference."}}, 0.02), (
        "Whatever all keys of one query share cancels in the division. Which of the four changes "
        "adds something shared?",
        "Compare two keys of one query: the ratio of their weights is exp of the difference of "
        "their scores. Which changes keep every such difference?",
        "0.8 : 0.2 is 4 : 1, so the scores differ by ln 4, and after doubling by 2 ln 4."),
        "A row holds the weights of one query: what its keys share cancels. Doubling the scores "
        "doubles β, which squares all odds: 4 : 1 becomes 16 : 1."),
    "find_the_bug": Exercise(_find_the_bug, (
        "Over which axis does the colleague sum: over the queries or over the keys?",
        "Row i holds the weights of query i. What must they sum to, and what do the colleague's "
        "weights sum to?",
        "Try scores with a single row. Then every column holds one number; divide it by the sum of "
        "its column."),
        "Two scores are enough, in one row or in one column. In one row, each column holds a "
        "single number and x / x = 1, so the row sums to 2. In one column, the two rows share a 1 "
        "that each of them should have. A square of equal scores would not have shown the bug."),
})
