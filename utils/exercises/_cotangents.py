"""A backward program that passes many tests, its relatives, and the cotangents that find them."""

import math

import numpy as np

from utils import reference, sizes
from utils.checks import difference, to_numpy
from utils.exercises._answers import listed
from utils.exercises._check import predictions, untouched

Q, K, V = sizes.qkv(11)
CONTEXT, WEIGHTS = reference.attention(Q, K, V)
TOLERANCE = 1e-6
READ = predictions({"line": 3, "right": "v"}, {
    "line": {
        1: "Line 1 is the rule of a product. Which line says something about the loss without "
           "having asked it?",
        2: "Line 2 is the rule of a product, and its result is (b, h, i, j), as weights are.",
        4: "Line 4 is the softmax of this chapter, if `average` is what it is called.",
        5: "The scale is right, and it stands where the scores get it.",
        6: "Scores (i, j) times keys (j, d), and turned, times queries: as in the chapter.",
        None: "One of the numbers 1 to 6."},
    "right": {"q": "q's gradient goes through the scores, and so through the wrong line.",
              "k": "k's gradient goes through the scores, and so through the wrong line.",
              None: "One of q, k, v."}})


def _backward(average, g, felt=None):
    """Return the gradients of q, k, v with this average; ``felt`` stands for g, if given."""
    felt = g if felt is None else felt
    g_scores = WEIGHTS * (felt @ V.mT - average) / math.sqrt(Q.shape[-1])
    return g_scores @ K, g_scores.mT @ Q, WEIGHTS.mT @ felt


def _relatives(g):
    """Yield (gradients of a wrong program, why a cotangent does not find it)."""
    average = (g * CONTEXT).sum(axis=-1, keepdims=True)
    whole = CONTEXT.sum(axis=-1, keepdims=True)
    yield _backward(whole, g), (
        "with yours, the program of this exercise still agrees with the right one. When is "
        "context.sum(-1) the average?")
    yield _backward(whole * g.mean(axis=-1, keepdims=True), g), (
        "that finds this program, but not its relative with context.sum(-1) * g.mean(-1), which "
        "is right wherever the numbers of g within a row are all equal.")
    last = average.copy()
    last[-1, -1] = 0
    yield _backward(last, g), (
        "a relative has no average in the last head of the last example, and yours does not ask "
        "there.")
    for axis, letter in ((2, "word"), (1, "head"), (0, "example")):
        moved = np.roll(g, 1, axis)
        yield _backward((moved * CONTEXT).sum(axis=-1, keepdims=True), g, moved), (
            f"a relative hands each {letter} the cotangent of its neighbour, and in yours all "
            f"{letter}s have the same.")


def it_passed(given):
    """Judge which line is wrong, which gradient is right, and a cotangent that finds it."""
    keys = {"line", "right", "cotangent"}
    if not isinstance(given, dict) or set(given) != keys:
        return "The answer is a dict with the keys 'line', 'right', 'cotangent'."
    rest = dict(given)
    made = rest.pop("cotangent")
    told = "Still open: cotangent." if untouched(made) else _cotangent(made)
    return listed([part for part in (READ(rest), told) if part])


def _cotangent(made):
    """Return what is wrong with cotangent(shape), "" if nothing is."""
    if not callable(made):
        return "cotangent: a function of the shape is asked for, not an array."
    g = made(CONTEXT.shape)
    if g is None:
        return "cotangent: it gives nothing back."
    g = to_numpy(g).astype(np.float64)
    if g.shape != CONTEXT.shape:
        return f"cotangent: for the shape {CONTEXT.shape} it returns {g.shape}."
    if not np.isfinite(g).all():
        return "cotangent: it is not finite, so nothing can be compared."
    if (g == 1).all():
        return "cotangent: all ones, that is `context.sum()`, which the program has passed."
    if 0 < abs(g).max() < 1e-3:
        return ("cotangent: its numbers are so small that a difference between two gradients is "
                "taken for rounding.")
    right = _backward((g * CONTEXT).sum(axis=-1, keepdims=True), g)
    for wrong, why in _relatives(g):
        if all(difference(*pair) < TOLERANCE for pair in zip(wrong, right, strict=True)):
            return f"cotangent: {why}"
    return ""
