"""The exercises of the chapter on flash attention."""

import numpy as np

from utils.checks import difference
from utils.exercises._answers import listed, unlike
from utils.exercises._check import Check, Exercise, untouched
from utils.exercises._window_tiles import window_tiles

VALUES = np.arange(1.0, 7.0)
FORGOT = {"shows": None, "hides": None, "sum to 1": False}


def _sums(scores, values):
    """Return (largest, total, weighted) of scores (i, j) and values (j, d)."""
    largest = scores.max(axis=1)
    exps = np.exp(scores - largest[:, None])
    return largest, exps.sum(axis=1), exps @ values


def _pieces(factor):
    """Return the states of two pieces of the keys, and of both together."""
    rng = np.random.default_rng(5)
    scores, values = factor * rng.normal(size=(5, 7)), rng.normal(size=(7, 3))
    return (_sums(scores[:, :3], values[:3]), _sums(scores[:, 3:], values[3:]),
            _sums(scores, values))


def _merge_sums(merge):
    """Return what is wrong with merge(a, b) -> (largest, total, weighted), "" if nothing is."""
    a, b, both = _pieces(1.0)
    kept = [x.copy() for x in (*a, *b)]
    got = merge(a, b)
    if not isinstance(got, list | tuple) or len(got) != 3:
        return "The answer is a state again, three arrays: largest, total, weighted."
    shapes = [np.shape(x) for x in got]
    if shapes != [(5,), (5,), (5, 3)]:
        return (f"For five queries and values of width 3 the state is (5,), (5,), (5, 3); yours is "
                f"{', '.join(map(str, shapes))}.")
    if not all(map(np.array_equal, kept, (*a, *b))):
        return "It has written into a or b: whoever handed them over still needs them."
    if not _equal(got, both):
        return _mistaken(got, a, b, both)
    return _large(merge) or _empty(merge, a)


def _equal(got, want):
    return all(difference(np.asarray(x), y) < 1e-9 for x, y in zip(got, want, strict=True))


def _mistaken(got, a, b, both):
    """Return what is wrong with the merged state of small scores."""
    largest, total, weighted = map(np.asarray, got)
    if difference(largest, both[0]) > 1e-9:
        return ("largest: for each query it is the larger of the two. "
                "Nothing else that is known of a piece is a score.")
    if difference(total, a[1] + b[1]) < 1e-9 or difference(weighted, a[2] + b[2]) < 1e-9:
        return ("The sums are added as they are. But a's contain exp(−a's largest) and b's "
                "exp(−b's largest): only sums with the same factor can be added.")
    right = [difference(total[i], both[1][i]) + difference(weighted[i], both[2][i]) < 1e-9
             for i in range(5)]
    for name, other, rows in (("a", "b", a[0] > b[0]), ("b", "a", b[0] > a[0])):
        if right == rows.tolist():
            return (f"Right where {name} has the larger maximum, wrong where {other} has it. "
                    "Which piece must shrink is asked of each query anew; the other's factor is "
                    "exp(0) = 1, so both may be multiplied always.")
    if difference(weighted / total[:, None], both[2] / both[1][:, None]) < 1e-9:
        return ("weighted / total is right, but the two do not belong to largest: total must be "
                "the sum of exp(score − largest), and weighted go with it. Has something been "
                "divided too early?")
    if (total > a[1] + b[1]).all():
        return ("total is more than both together: the sums have grown. exp(old − new) of a "
                "larger new maximum is less than 1.")
    if _taken_for_context(weighted, a, b, both):
        return ("weighted has been taken for a context, and divided by a total or multiplied by "
                "one. In this state nothing is divided yet, neither before nor after.")
    part = "weighted" if difference(total, both[1]) < 1e-9 else "total"
    return (f"{part} is not that of all keys. Both sums of a piece are multiplied by "
            "exp(its largest − the new one), then added.")


def _taken_for_context(weighted, a, b, both):
    """Return whether weighted is a context, or is made of a's and b's as if they were contexts."""
    shares = [(np.exp(x[0] - both[0]) * x[1])[:, None] * x[2] for x in (a, b)]
    wrong = both[2] / both[1][:, None], sum(shares), sum(shares) / both[1][:, None]
    return min(difference(weighted, x) for x in wrong) < 1e-9


def _large(merge):
    """Return what is wrong where scores are in the thousands, "" if nothing is."""
    a, b, both = _pieces(3000.0)
    got = merge(a, b)
    if not all(np.isfinite(x).all() for x in got):
        return ("Right for small scores; in the thousands something overflows. No exponent may "
                "be positive: subtract the new maximum before, not after.")
    return "" if _equal(got, both) else "Right for small scores, wrong in the thousands."


def _empty(merge, a):
    """Return what is wrong with empty states, "" if nothing is."""
    nothing = np.full(5, -np.inf), np.zeros(5), np.zeros((5, 3))
    for pair, want, what in (((a, nothing), a, "An empty b changes a"),
                             ((nothing, a), a, "An empty a changes b"),
                             ((nothing, nothing), nothing, "Two empty states make another one")):
        got = merge(*pair)
        if not _equal(got, want):
            nan = any(np.isnan(x).any() for x in got)
            return f"{what}." + (" −∞ minus −∞ is NaN: what should be subtracted where the new "
                                 "maximum is still −∞?" if nan else "")
    return ""


def _forgetful(scores, shrink=False):
    """Return the answer of the program that forgets to shrink, or of the right one."""
    largest, total, weighted = -np.inf, 0.0, 0.0
    for part in (slice(3), slice(3, 6)):
        grown = max(largest, scores[part].max())
        factor = np.exp(largest - grown) if shrink else 1.0
        new = np.exp(scores[part] - grown)
        total, weighted = factor * total + new.sum(), factor * weighted + new @ VALUES[part]
        largest = grown
    return weighted / total


def _forgot(answer):
    """Return what is wrong with scores that show the mistake, and scores that hide it."""
    if not isinstance(answer, dict) or set(answer) != set(FORGOT):
        return f"The answer is a dict with the keys {', '.join(map(repr, FORGOT))}."
    open_ = [key for key in FORGOT if untouched(answer[key])]
    lines = [f"{key}: {why}" for key in ("shows", "hides")
             if key not in open_ and (why := _scores(key, answer[key]))]
    if "sum to 1" not in open_:
        why = unlike(answer["sum to 1"], False, "Let all values be equal and do the sum: what "
                                                "comes out, whatever the scores are?")
        lines += [f"sum to 1: {why}"] if why else []
    return listed(lines + ([f"Still open: {', '.join(open_)}."] if open_ else []))


def _scores(key, given):
    """Return what is wrong with six scores that should show or hide the mistake."""
    scores = np.asarray(given, dtype=float).ravel()
    if len(scores) != 6 or not np.isfinite(scores).all():
        return f"six finite numbers are asked for, not {given!r}."
    if len(set(scores.tolist())) < 6:
        return "the six must be pairwise different."
    gap = abs(_forgetful(scores) - _forgetful(scores, shrink=True))
    first = scores[:3].max() > scores[3:].max()
    if key == "shows" and gap <= 0.1:
        return ("its answer is right: the largest score is in the first tile, so nothing has to "
                "shrink." if first else f"its answer is off by {gap:.1g} only. The further the "
                "maximum grows from one tile to the next, the more should have shrunk.")
    if key == "hides" and gap > 1e-6:
        return (f"its answer is off by {gap:.1g}: the second tile has a larger score than the "
                "first, and the sums of the first should have shrunk.")
    return ""


def _window(answer):
    """Return what is wrong with the tiles of a window and their number."""
    if not isinstance(answer, dict) or set(answer) != {"tiles", "how many"}:
        return "The answer is a dict with the keys 'tiles', 'how many'."
    open_ = [key for key, part in answer.items() if untouched(part)]
    lines = []
    if "tiles" not in open_ and (why := window_tiles(answer["tiles"])):
        lines.append(f"tiles: {why}")
    if "how many" not in open_ and (why := unlike(answer["how many"], 310, {
            2080: "So many a causal mask needs; the window hides most of them.",
            4096: "That is all of them, 64 by 64.",
            320: "Five in each of 64 rows; but the first rows have less before them.",
            256: "Four a row? Its first query looks 1023 keys back, its last stands 255 later.",
            None: "How many keys, from the first that the first query of a tile sees to the last "
                  "that the last one sees? How many tiles do they touch?"})):
        lines.append(f"how many: {why}")
    return listed(lines + ([f"Still open: {', '.join(open_)}."] if open_ else []))


check = Check({
    "merge_sums": Exercise(_merge_sums, (
        "Which maximum do the sums of both together belong to?",
        "A sum made with the maximum m becomes one with the maximum n by exp(m − n). Do it to "
        "both sums of both pieces.",
        "np.where(np.isneginf(largest), 0, largest) can be subtracted safely."),
        "It is `merge` without the division, which can wait until everything has been seen."),
    "forgot_to_shrink": Exercise(_forgot, (
        "When does the right program multiply by something other than 1?",
        "When a later tile has a larger score. Sorted upwards, then downwards?",
        "`total` and `weighted` make the same mistake. What is their ratio if all values are 5?"),
        "A bug of one line, silent on half of all inputs, and on every input of a test of sums."),
    "window_tiles": Exercise(_window, (
        "Of the queries in a row of tiles, which one looks furthest back?",
        "The first query i of the row sees keys from i − left on, but not below 0.",
        "// tile * tile goes back to the beginning of a tile. The last tile holds the diagonal."),
        "Five tiles a row, however long the text is: with a window, time is linear too."),
})
