"""The exercises of the chapter on flash attention."""

import numpy as np

from ..checks import difference
from ._check import Check, Exercise
from ._flash_window_tiles import judge_tiles
from ._judges import parts, prediction

VALUES = np.arange(1.0, 7.0)


def _sums(scores, values):
    """Return (largest, total, weighted) of scores (i, j) and values (j, d)."""
    largest = scores.max(axis=1)
    exps = np.exp(scores - largest[:, None])
    return largest, exps.sum(axis=1), exps @ values


def _pieces(factor):
    """Return the states of two pieces of the keys, and of all keys."""
    rng = np.random.default_rng(5)
    scores, values = factor * rng.normal(size=(5, 7)), rng.normal(size=(7, 3))
    return (_sums(scores[:, :3], values[:3]), _sums(scores[:, 3:], values[3:]),
            _sums(scores, values))


def _merge_sums(merge):
    """Judge merge(a, b) -> (largest, total, weighted)."""
    a, b, both = _pieces(1.0)
    kept = [x.copy() for x in (*a, *b)]
    got = merge(a, b)
    if not isinstance(got, list | tuple) or len(got) != 3:
        return "The function must return a state, three arrays: largest, total, weighted."
    shapes = [np.shape(x) for x in got]
    if shapes != [(5,), (5,), (5, 3)]:
        return ("For five queries and values with 3 dimensions the state is (5,), (5,), (5, 3); "
                "yours "
                f"is {', '.join(map(str, shapes))}.")
    if not all(map(np.array_equal, kept, (*a, *b))):
        return "It changes a or b in place, but the caller still needs them."
    if not _equal(got, both):
        return _wrong_state(got, a, b, both)
    return _large_scores(merge) or _empty_states(merge, a)


def _equal(got, want):
    return all(difference(np.asarray(x), y) < 1e-9 for x, y in zip(got, want, strict=True))


def _wrong_state(got, a, b, both):
    """Return what is wrong with the merged state of small scores."""
    largest, total, weighted = map(np.asarray, got)
    if difference(largest, both[0]) > 1e-9:
        return "largest is wrong: for each query it must be the larger of the two."
    if difference(total, a[1] + b[1]) < 1e-9 or difference(weighted, a[2] + b[2]) < 1e-9:
        return ("You add the sums as they are. But a's sums contain exp(−a's largest) and b's "
                "exp(−b's largest): you may only add sums with the same factor.")
    right = [difference(total[i], both[1][i]) + difference(weighted[i], both[2][i]) < 1e-9
             for i in range(5)]
    for name, other, rows in (("a", "b", a[0] > b[0]), ("b", "a", b[0] > a[0])):
        if right == rows.tolist():
            return (f"It is right where {name} has the larger maximum, but wrong where {other} has "
                    "it. Which piece must shrink differs from query to query; the factor of the "
                    "other is exp(0) = 1, so you can always multiply both.")
    if difference(weighted / total[:, None], both[2] / both[1][:, None]) < 1e-9:
        return ("weighted / total is right, but both have a wrong factor: total must be the sum of "
                "exp(score − largest). Do you divide too early?")
    if (total > a[1] + b[1]).all():
        return ("total is larger than both totals together, but the sums must shrink: if the new "
                "maximum is larger, exp(old − new) is less than 1.")
    if _treated_as_context(weighted, a, b, both):
        return ("You treat weighted as a context, and divide it by a total or multiply it by one. "
                "In this state nothing is divided yet, neither before nor after.")
    part = "weighted" if difference(total, both[1]) < 1e-9 else "total"
    return (f"{part} is wrong. Multiply both sums of a piece by exp(its largest − the new one), "
            "then add.")


def _treated_as_context(weighted, a, b, both):
    """Return whether weighted is a context, or is merged as if a's and b's were contexts."""
    shares = [(np.exp(x[0] - both[0]) * x[1])[:, None] * x[2] for x in (a, b)]
    wrong = both[2] / both[1][:, None], sum(shares), sum(shares) / both[1][:, None]
    return min(difference(weighted, x) for x in wrong) < 1e-9


def _large_scores(merge):
    """Return what is wrong if scores are in the thousands, "" if nothing is."""
    a, b, both = _pieces(3000.0)
    got = merge(a, b)
    if not all(np.isfinite(x).all() for x in got):
        return ("It is right for small scores, but with scores in the thousands something "
                "overflows. No exponent may be positive: subtract the new maximum before exp.")
    return "" if _equal(got, both) else "It is right for small scores, but wrong in the thousands."


def _empty_states(merge, a):
    """Return what is wrong with empty states, "" if nothing is."""
    nothing = np.full(5, -np.inf), np.zeros(5), np.zeros((5, 3))
    for pair, want, message in (
            ((a, nothing), a, "An empty b changes a."),
            ((nothing, a), a, "An empty a changes b."),
            ((nothing, nothing), nothing, "Two empty states do not make an empty state.")):
        got = merge(*pair)
        if not _equal(got, want):
            if any(np.isnan(x).any() for x in got):
                message += (" −∞ minus −∞ is NaN: what should you subtract where the new maximum "
                            "is still −∞?")
            return message
    return ""


def _forgetful(scores, shrink=False):
    """Return the output of the program that forgets to shrink its sums, or of the right one."""
    largest, total, weighted = -np.inf, 0.0, 0.0
    for part in (slice(3), slice(3, 6)):
        grown = max(largest, scores[part].max())
        factor = np.exp(largest - grown) if shrink else 1.0
        new = np.exp(scores[part] - grown)
        total, weighted = factor * total + new.sum(), factor * weighted + new @ VALUES[part]
        largest = grown
    return weighted / total


def _six_scores(reveals):
    """Return the judge of six scores that should reveal the mistake, or hide it."""
    def judge(given):
        scores = np.asarray(given, dtype=float).ravel()
        if len(scores) != 6 or not np.isfinite(scores).all():
            return f"it must be six finite numbers, not {given!r}."
        if len(set(scores.tolist())) < 6:
            return "the six scores must all be different."
        gap = abs(_forgetful(scores) - _forgetful(scores, shrink=True))
        if not reveals and gap > 1e-6:
            return (f"its output is wrong by {gap:.1g}: the second tile has a larger score than "
                    f"the "
                    "first, so the sums of the first should have shrunk.")
        if not reveals or gap > 0.1:
            return ""
        if scores[:3].max() > scores[3:].max():
            return ("its output is right: the largest score is in the first tile, so nothing has "
                    "to shrink.")
        return (f"its output is wrong by only {gap:.1g}. The more the maximum grows from one tile "
                "to the next, the more the sums should shrink.")

    return judge


check = Check({
    "merge_sums": Exercise(_merge_sums, (
        "Which maximum do the sums of both together belong to?",
        "To change the maximum of a sum from m to n, multiply it by exp(m − n). Do so for both "
        "sums of both pieces.",
        "You can subtract np.where(np.isneginf(largest), 0, largest) without NaN."),
        "This is `merge` without the division, which you can postpone until all keys are merged."),
    "forgot_to_shrink": Exercise(parts({
        "shows": _six_scores(True), "hides": _six_scores(False),
        "sum to 1": prediction(False, "Set all values to the same number and compute the sums: "
                                      "what is the output, for any scores?")}), (
        "When does the right program multiply by something other than 1?",
        "It does so if a later tile has a larger score. Try increasing scores, then decreasing "
        "ones.",
        "`total` and `weighted` have the same mistake. What is their ratio if all values are 5?"),
        "This bug does not show on half of all inputs, and never if a test checks only sums."),
    "window_tiles": Exercise(parts({
        "tiles": judge_tiles,
        "how many": prediction(310, {
            2080: "That is the number for a causal mask; the window masks most of these.",
            4096: "That is the number of all tiles, 64 by 64.",
            320: "That is five in each of 64 rows; but the first rows have fewer keys before them.",
            256: "That is four a row. But the first query of a row attends 1023 keys back, and the "
                 "last query is 255 positions later.",
            None: "Count the keys from the first in the window of a row's first query to the last "
                  "in that of its last query. How many tiles contain them?"})}), (
        "Which of the queries in a row of tiles attends furthest back?",
        "The first query i of the row attends to keys from i − left on, but not below 0.",
        "// tile * tile gives the beginning of a tile. The last tile contains the diagonal."),
        "A row has at most five tiles, however long the sequence is: with a window, time is "
        "linear, too."),
})
