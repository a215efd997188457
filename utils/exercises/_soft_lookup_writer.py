"""The exercise of the chapter on the soft lookup that builds the writer out of attention."""

import numpy as np

from ..checks import to_numpy
from ._judges import incomplete

POINTS = np.arange(1, 7)
NO_POSITIONS = ("A character scores at any position of the key: “nuf” looks like “fun”. How can a "
                "vector tell an n at position 2 from an n at position 0?")
RAW_CODES = ("You multiply the character codes themselves, and a product of codes is large for "
             "large codes, not for equal ones: a (97) with a makes 9409, but a with z (122) makes "
             "11834. A product that asks “equal?” needs one-hot vectors.")


def _points_cases():
    """Return [(keys (40, 6), query (6,))], character codes, with matches in and out of place."""
    rng, cases = np.random.default_rng(0), []
    for text in (b"functi", b"see_no", b"Error:"):
        query = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
        keys = np.where(rng.random((40, 6)) < 0.5, query, rng.integers(33, 127, (40, 6)))
        keys[:9], keys[9] = rng.permuted(np.tile(query, (9, 1)), axis=1), query
        cases.append((keys, query))
    return cases


def _known_scores(keys, query):
    """Yield (scores, message) of every known way to score, the right one first."""
    here = keys == query
    somewhere = keys[:, :, None] == query
    yield here @ POINTS, ""
    yield here.sum(1), "Every position scores 1, old or new: where do the points go?"
    yield here @ POINTS ** 2, ("The positions score 1, 4, 9 … 36: you put the points on both "
                               "sides, and a dot product multiplies them.")
    yield here @ POINTS ** 0.5, ("The positions score 1, 1.41, 1.73 …: only one side has the "
                                 "square roots of the points.")
    yield here @ POINTS[::-1], "The oldest position scores 6 and the newest 1: reverse the order."
    yield here @ (POINTS - 1), "The positions score 0 … 5, so the oldest has no effect."
    for one in (np.ones(6), POINTS):
        yield somewhere.sum(2) @ one, NO_POSITIONS
        yield somewhere.sum(1) @ one, NO_POSITIONS


def _of_raw_codes(cases, got):
    """Return whether the products are those of codes, with any points and any factor."""
    for power in (0, 0.5, 1, 2):
        raw = np.array([keys @ (query * POINTS ** power) for keys, query in cases])
        if np.allclose(got, raw * (got.sum() / raw.sum())):
            return True
    return False


def writer(functions):
    """Judge the three functions that turn keys, a query and next characters into vectors."""
    problem = incomplete(functions, ("keys", "query", "values"))
    if problem:
        return problem
    cases, products = _points_cases(), []
    for keys, query in cases:
        made = {"keys": functions["keys"](keys.copy()), "query": functions["query"](query.copy())}
        for name, vector in made.items():
            if vector is None:
                return f"The function {name!r} returns None: is a return missing?"
        keys, query = map(to_numpy, made.values())
        if keys.ndim != 2 or query.ndim != 1 or len(keys) != 40:
            return (f"40 keys should become (40, width) and a query (width,); yours have the "
                    f"shapes {keys.shape} and {query.shape}. Join the blocks of a key side by "
                    "side.")
        if keys.shape[1] != len(query):
            return (f"A key has {keys.shape[1]} dimensions and the query {len(query)}: a dot "
                    "product needs equally many.")
        products.append(keys @ query)
    return _which_scores(cases, np.array(products), len(query)) or _values(functions["values"])


def _which_scores(cases, got, width):
    """Return the message for the products ``got`` (case, j), "" if they are the points."""
    if got.dtype == bool:
        return "A product of bools is a bool, not a count, but the points are numbers."
    for known in zip(*(_known_scores(*case) for case in cases), strict=True):
        if np.allclose(got, [scores for scores, _ in known]):
            return known[0][1]
    right = np.array([(keys == query) @ POINTS for keys, query in cases])
    if np.allclose(got, got.max() / 21 * right) and got.any():
        return f"Every score is {got.max() / 21:.3g} times the points."
    if _of_raw_codes(cases, got):
        return RAW_CODES
    case, j = np.argwhere(~np.isclose(got, right))[0]
    keys, query = cases[case]
    text, key = (bytes(codes.tolist()).decode() for codes in (query, keys[j]))
    cause = ("" if width > 6 else " A character has only one number in your vectors, and a product "
             "of two numbers is large for large numbers, not for equal ones.")
    return (f"For the query “{text}” the key “{key}” has {right[case, j]} points; your product is "
            f"{got[case, j]:.3g}.{cause}")


def _values(value_vectors):
    """Return the message for the function that turns next characters into values."""
    codes = np.frombuffer(b"to be or not to be", dtype=np.uint8).astype(np.int64)
    made = value_vectors(codes.copy())
    if made is None:
        return "The function 'values' returns None: is a return missing?"
    made = to_numpy(made)
    if made.shape in ((len(codes),), (len(codes), 1)):
        return ("Your values are single numbers, so the context is an average of codes: an a (97) "
                "and a c (99) with equal weights would give a b (98). Which vector can hold a "
                "probability for each character?")
    if made.shape != (len(codes), 128):
        return (f"{len(codes)} next characters should become ({len(codes)}, 128) values; yours "
                f"have the shape {made.shape}.")
    if not np.allclose(made.sum(axis=1), 1):
        return (f"The elements of your first value sum to {made[0].sum():.3g}. The context is an "
                "average of the values: what must the probabilities in it sum to?")
    if not np.allclose(made, np.eye(128)[codes]):
        place = int(made[0].argmax())
        return (f"The first next character is {chr(codes[0])!r}, code {codes[0]}. Its value should "
                f"have all of its probability at position {codes[0]}; yours is largest at {place}.")
    return ""
