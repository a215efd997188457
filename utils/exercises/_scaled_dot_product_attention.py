"""The exercise of the chapter on the scaled dot product that builds attention."""

import numpy as np

from .. import reference
from ..checks import difference
from ._judges import doctor_report, recognise

SHAPES = (((5, 4), (7, 4), (7, 8)), ((2, 5, 4), (2, 7, 4), (2, 7, 8)),
          ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 8)))


def _draw(shapes, factor=1.0):
    rng = np.random.default_rng(len(shapes[0]))
    q, k, v = (rng.standard_normal(shape) for shape in shapes)
    return factor * q, k, v


def _known(q, k, v):
    """Yield (context, message) of every known way to compute it, the right one first."""
    scores = q @ k.swapaxes(-2, -1)
    d_k = q.shape[-1]

    def context(divisor, axis=-1):
        exps = np.exp(scores / divisor)
        return exps / exps.sum(axis=axis, keepdims=True) @ v

    yield context(d_k ** 0.5), ""
    yield context(1), "The scores are not divided by √d_k."
    yield context(d_k), "You divide the scores by d_k. By which power of d_k do scores grow?"
    yield context(d_k ** -0.5), "You multiply the scores by √d_k instead of dividing them."
    for name, size in (("d_v, the number of dimensions of a value", v.shape[-1]),
                       ("the number of keys", k.shape[-2]), ("the number of queries", q.shape[-2]),
                       ("the length of the first axis", len(q))):
        yield context(size ** 0.5), (f"You divide the scores by the root of {name}. A score sums "
                                     "d_k products.")
    yield context(d_k ** 0.5, -2), ("Your softmax sums over the queries: each *key's* weights sum "
                                    "to 1. Each *query's* weights must sum to 1.")
    yield context(d_k ** 0.5, None), ("You divide by the sum of the whole array. Each query has a "
                                      "sum of its own.")
    yield scores / d_k ** 0.5 @ v, "You take the scores for weights: softmax is missing."
    yield np.exp(scores / d_k ** 0.5) @ v, "The exponentials are not divided by their sum."


def own_attention(program):
    """Judge attention(q, k, v, scale=None), which returns (context, weights)."""
    for shapes in SHAPES:
        problem = _compared(program, _draw(shapes))
        if problem:
            return f"{problem} (The shapes of q, k and v are {', '.join(map(str, shapes))}.)"
    return (_overflows(program) or _ignores_scale(program)
            or doctor_report(lambda q, k, v, keep=None: program(q, k, v)[0], masks="none",
                             framework="numpy"))


def _compared(program, sides):
    """Return the message for one call, "" if its context and weights are right."""
    copies = [side.copy() for side in sides]
    made = program(*copies)
    if made is None:
        return "Your function returns None: is a return missing?"
    if any((copy != side).any() for copy, side in zip(copies, sides, strict=True)):
        return "Your function changes q, k or v, which the caller still needs."
    if not isinstance(made, tuple) or len(made) != 2:
        return "The function should return two arrays, (context, weights)."
    context, weights = map(np.asarray, made)
    expected, expected_weights = reference.attention(*sides)
    if context.shape == expected_weights.shape and difference(context, expected_weights) < 1e-9:
        return ("You return the weights first. The context should come first."
                if weights.shape == expected.shape else
                "Your context is the weights: the weighted sum of the values is missing.")
    if context.shape != expected.shape:
        return f"The context should have the shape {expected.shape}; yours has {context.shape}."
    message = recognise(context, _known(*sides))
    if message is None:
        return ("The context has the right shape and wrong numbers. Print the weights of one "
                "query: are they positive, and is their sum 1?")
    if message:
        return message
    if weights.shape != expected_weights.shape or difference(weights, expected_weights) > 1e-9:
        return "The context is right, but the second array should hold the weights, (…, i, j)."
    return ""


def _overflows(program):
    """Return the message for a program that fails with large scores."""
    q, k, v = _draw(SHAPES[0], factor=1000.0)
    one_tall_row = q * np.array([[1.0], [1], [1], [1], [1e-6]])
    for query in (q, one_tall_row):
        context, _ = program(query, k, v)
        if not np.isfinite(context).all():
            if np.isfinite(program(query[:1], k, v)[0]).all():
                return ("With large scores in some rows, other rows become NaN: you subtract the "
                        "largest score of all. Each row has a largest score of its own.")
            return "With scores of some thousands the context is NaN: `exp` overflows."
        if difference(context, reference.attention(query, k, v)[0]) > 1e-9:
            return ("With scores of some thousands the context is finite but wrong. Which step "
                    "changes the differences between scores?")
    return ""


def _ignores_scale(program):
    """Return the message for a program whose argument ``scale`` is not what multiplies."""
    q, k, v = _draw(SHAPES[0])
    for scale in (1.0, 0.3, 0.0):
        context, _ = program(q, k, v, scale=scale)
        if difference(context, reference.attention(q, k, v, scale=scale)[0]) < 1e-9:
            continue
        if difference(context, reference.attention(q, k, v)[0]) < 1e-9:
            if scale:
                return f"With scale={scale:g} the program still divides by √d_k."
            return ("With scale=0 all scores should become 0. In an `if` or an `or`, 0 counts as "
                    "False, like None.")
        if scale and difference(context, reference.attention(q, k, v, scale=1 / scale)[0]) < 1e-9:
            return f"With scale={scale:g} you divide the scores by it; a scale multiplies."
        return f"With scale={scale:g} the context is wrong."
    return ""
