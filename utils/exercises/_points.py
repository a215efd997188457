"""The points of the lookup that writes, as one dot product."""

import numpy as np

from utils.checks import to_numpy
from utils.exercises._check import untouched

POINTS = np.arange(1, 7)


def _cases():
    """Return [(keys (n, 6), query (6,))], codes; some keys share places, some only letters."""
    rng, cases = np.random.default_rng(0), []
    for text in (b"functi", b"see_no", b"Error:"):
        query = np.frombuffer(text, dtype=np.uint8)
        keys = np.where(rng.random((40, 6)) < 0.5, query, rng.integers(33, 127, (40, 6)))
        keys[:9], keys[9] = rng.permuted(np.tile(query, (9, 1)), axis=1), query
        cases.append((keys.astype(np.uint8), query))
    return cases


def _known(keys, query):
    """Yield (scores, why) of every scoring that we know, the right one first."""
    here = keys == query
    somewhere = keys[:, :, None] == query
    yield here @ POINTS, ""
    yield here.sum(1), "Every place scores 1, old or new: where do the points go?"
    yield here @ POINTS ** 2, ("Places score 1, 4, 9 … 36: the points stand on both sides, and a "
                               "dot product multiplies them.")
    yield here @ POINTS ** 0.5, ("Places score 1, 1.41, 1.73 …: the roots of the points stand on "
                                 "one side only.")
    yield here @ POINTS[::-1], "The oldest place scores 6 and the newest 1: the wrong way round."
    yield here @ (POINTS - 1), "Places score 0 … 5: the oldest is not heard at all."
    anywhere = ("A character scores wherever it stands in the key: “nuf” looks like “fun”. How can "
                "a vector tell an n in place 2 from an n in place 0?")
    for one in (np.ones(6), POINTS):
        yield somewhere.sum(2) @ one, anywhere
        yield somewhere.sum(1) @ one, anywhere
    for dtype in (np.uint8, int):
        yield keys.astype(dtype) @ query.astype(dtype), (
            "The codes themselves are multiplied, so that a pair of z's scores more than a pair "
            "of a's, and z beside y nearly as much. A product that asks “equal?” needs one-hot "
            "vectors.")


def one_dot_product(vectors):
    """Judge two functions whose vectors' products should be the points."""
    if not isinstance(vectors, dict) or set(vectors) != {"keys", "query"}:
        return "The answer is the dict from the stub: two functions, 'keys' and 'query'."
    open_ = [name for name, function in vectors.items() if untouched(function)]
    if open_:
        return f"Still open: {open_[0]}."
    cases, got = _cases(), []
    for keys, query in cases:
        made = {"keys": vectors["keys"](keys.copy()), "query": vectors["query"](query.copy())}
        nothing = [name for name, vector in made.items() if vector is None]
        if nothing:
            return f"{nothing[0]} gives nothing back: the function ends without a return."
        keys, query = map(to_numpy, made.values())
        if keys.ndim != 2 or query.ndim != 1 or len(keys) != 40:
            return (f"40 keys should become (40, width) and a query (width,); yours are "
                    f"{keys.shape} and {query.shape}. Lay the blocks of a key side by side.")
        if keys.shape[1] != len(query):
            return (f"A key is {keys.shape[1]} wide and the query {len(query)}: a dot product "
                    "needs the same width.")
        got.append(keys @ query)
    return _scoring(cases, np.array(got))


def _scoring(cases, got):
    """Return which known scoring ``got`` (case, j) is, as a sentence, "" for the right one."""
    if got.dtype == bool:
        return "A product of bools is a bool, not a count: the points are numbers."
    for known in zip(*(_known(*case) for case in cases), strict=True):
        if np.allclose(got, [scores for scores, _ in known]):
            return known[0][1]
    right = np.array([(keys == query) @ POINTS for keys, query in cases])
    if np.allclose(got, got.max() / 21 * right) and got.any():
        return f"Every score is {got.max() / 21:.3g} times the points."
    case, key = np.argwhere(~np.isclose(got, right))[0]
    key_text, text = (bytes(codes[place].tolist()).decode() for codes, place in
                      ((cases[case][0], key), (cases[case][1], slice(None))))
    return (f"“{text}” scores {right[case, key]} points for the key “{key_text}”; your product "
            f"says {got[case, key]:.3g}.")
