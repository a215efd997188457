"""The exercises of the chapter on what attention does."""

import numpy as np

from ..attention.numpy import softmax
from ..checks import difference, to_numpy
from ._check import Check, Exercise

TOKENS = ("the", "river", "bank")
KEYS = np.array([[0, 1], [2, 0], [1, 1]])


def _steer(query):
    query = to_numpy(query)
    if query.shape != (2,):
        return f"A query has two elements here, the shape (2,). Yours has the shape {query.shape}."
    scores = KEYS @ query
    weights = softmax(scores)
    said = ", ".join(f"“{token}” {score:g}" for token, score in zip(TOKENS, scores, strict=True))
    if weights[0] >= 0.9:
        return ""
    if np.isclose(scores[0], scores.max()):
        tied = [t for t, score in zip(TOKENS[1:], scores[1:], strict=True)
                if np.isclose(score, scores[0])]
        if tied:
            return (f"The scores are {said}. Equal scores give equal weights: which element of the "
                    f"query tells “the” from “{tied[0]}”?")
        return (f"The scores are {said}. The score of “the” is the largest, but its weight is only "
                f"{weights[0]:.2f}. The differences between the scores are too small.")
    best = TOKENS[int(scores.argmax())]
    return (f"The scores are {said}. “{best}” has the largest score, so it gets the largest "
            f"weight, {weights.max():.2f}.")


def _cases():
    rng = np.random.default_rng(0)
    return [tuple(rng.standard_normal(shape) for shape in shapes)
            for shapes in (((4, 3), (6, 3), (6, 2)), ((1, 2), (3, 2), (3, 5)))]


def _weights(q, k, axis=-1, scale=1.0):
    exps = np.exp(q @ k.T * scale)
    return exps / exps.sum(axis=axis, keepdims=True)


# What a program returns, and what is said about it; the first is right.
KNOWN = (
    (lambda q, k, v: _weights(q, k) @ v, ""),
    (lambda q, k, v: _weights(q, k),
     "You return the attention weights. The last step is missing: the weighted sum of the values."),
    (lambda q, k, v: _weights(q, k, axis=0) @ v,
     "You divide by sums over the queries, so each *key's* weights sum to 1. Each *query's* "
     "weights must sum to 1."),
    (lambda q, k, v: _weights(q, k, axis=None) @ v,
     "You divide by the sum over all queries and keys. Each query has a sum of its own."),
    (lambda q, k, v: _weights(q, k[:len(q)]) @ v[:len(q)],
     "You use only as many keys as there are queries. How many keys does each query have?"),
    (lambda q, k, v: np.exp(q @ k.T) @ v,
     "The exponentials are not divided by their sum."),
    (lambda q, k, v: q @ k.T @ v,
     "You take the scores for weights: the exponentials and the division are missing."),
    (lambda q, k, v: (q @ k.T / (q @ k.T).sum(axis=1, keepdims=True)) @ v,
     "You divide the scores by their sum, without taking exponentials first. Scores can be "
     "negative, weights cannot."),
    (lambda q, k, v: _weights(q, k, scale=q.shape[1] ** -0.5) @ v,
     "You divide the scores by √d. The course does so later, but this exercise does not."),
)


def _loops(attend):
    for q, k, v in _cases():
        try:
            out = attend(q.tolist(), k.tolist(), v.tolist())
        except IndexError as error:
            error.args = (f"{error}. There are {len(q)} queries, but {len(k)} keys and values: "
                          "which of the two numbers does your loop or list need?",)
            raise
        if out is None:
            return "Your function returns None: is a return missing?"
        got = np.array(out, dtype=float)
        problem = next((said for program, said in KNOWN
                        if program(q, k, v).shape == got.shape
                        and difference(got, program(q, k, v)) < 1e-9), None)
        if problem is None:
            want = (len(q), v.shape[1])
            problem = (f"For {len(q)} queries and values with {v.shape[1]} dimensions, the context "
                       f"should have the shape {want}; yours has {got.shape}." if got.shape != want
                       else "The context has the right shape and wrong numbers. Print the weights "
                       "of one query: are they positive, and is their sum 1?")
        if problem:
            return problem
    return ""


check = Check({
    "steer": Exercise(_steer, (
        "Write down the three scores for a query (x, y). They are y, 2x and x + y.",
        "“the” needs a score that is larger than the two others by about 3: e³ is 20.",
        "A negative first element lowers the scores of “river” and “bank”, and not that of “the”."),
        "A query can also point away from keys: a negative element lowers the scores of all tokens "
        "whose keys have a large positive element there."),
    "loops": Exercise(_loops, (
        "Take the queries one after another. For each of them, make a list of exponentials, one "
        "for each key.",
        "The score is sum(a * b for a, b in zip(query, key)). Divide each exponential by the sum "
        "of the list, before you go on to the values.",
        "Element c of the context is sum(w * value[c] for w, value in zip(weights, values))."),
        "Two nested loops, over queries and over keys: that is all of attention, and the number of "
        "scores is their product."),
})
