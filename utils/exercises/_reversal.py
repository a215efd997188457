"""Matrices that reverse eight letters, written down by hand."""

import math

import numpy as np

from utils import reference
from utils.checks import to_numpy

LETTERS, LENGTH, ROOT = "abcdefghij", 8, math.sqrt(8)
BOUND = ROOT * math.log(7)
SHAPES = {"W_q": (18, 8), "W_k": (18, 8), "W_v": (18, 10)}


def _strings():
    """Return the strings that are tried: (n, 8), the hardest last."""
    random = np.random.default_rng(0).integers(10, size=(200, 8))
    hardest = [[(n == odd) + 4 for n in range(8)] for odd in range(8)]
    return np.concatenate([random, hardest])


def _encode(tokens):
    places = np.broadcast_to(np.eye(8), (len(tokens), 8, 8))
    return np.concatenate([np.eye(10)[tokens], places], axis=-1)


def _written(matrices, tokens):
    """Return what a head writes, (b, i), and its scores before the root, (b, i, j)."""
    x = _encode(tokens)
    W_q, W_k, W_v = matrices
    context, _ = reference.attention(x @ W_q, x @ W_k, x @ W_v)
    return context.argmax(axis=-1), x @ W_q @ (x @ W_k).swapaxes(-1, -2)


def written_down(answer):
    """Judge a function from c to (W_q, W_k, W_v)."""
    tokens = _strings()
    for c, right in ((BOUND + 0.1, True), (20.0, True), (BOUND - 0.1, False)):
        got = answer(c)
        if not isinstance(got, list | tuple) or len(got) != 3:
            return "Return three matrices: W_q, W_k, W_v."
        got = [np.asarray(to_numpy(matrix), dtype=float) for matrix in got]
        for matrix, (name, shape) in zip(got, SHAPES.items(), strict=True):
            if matrix.shape != shape:
                return f"{name} is {matrix.shape}, not {shape}; a head computes x @ {name}."
        written, scores = _written(got, tokens)
        if right and (written != tokens[:, ::-1]).any():
            return _misread(got, written, scores, tokens, c)
        if not right and (written == tokens[:, ::-1]).all():
            return (f"They reverse everything, even at c = {c:.3g}, since their largest score is "
                    f"{scores.max():.3g} before the root, not c. Where does c stand?")
    return ""


def _misread(matrices, written, scores, tokens, c):
    """Return why a head does not reverse: what it looks at, and what it hands over."""
    looks = scores.argmax(axis=-1)
    unsure = np.isclose(np.sort(scores)[..., -1], np.sort(scores)[..., -2])
    handed = _encode(tokens) @ matrices[2]
    if np.ptp(scores, axis=-1).max() == 0:
        return "All scores of a row are equal: every place looks everywhere alike."
    if not np.allclose(scores, scores[:1]):
        return ("Where a place looks depends on the letters. Which rows of W_q and W_k does a "
                "letter meet?")
    if unsure.any():
        row = int(np.argwhere(unsure)[0][1])
        return f"Place {row} has two keys with the same best score: what does each place offer?"
    if (looks == np.arange(8)).all():
        return ("Every place looks at itself: it asks for exactly what it offers. (To turn both "
                "sides round turns nothing.)")
    if (looks != np.arange(8)[::-1]).any():
        row = int(np.argwhere(looks != np.arange(8)[::-1])[0][1])
        return (f"Place {row} looks at place {looks[0, row]}, not at its mirror image "
                f"{7 - row}.")
    if (handed.argmax(axis=-1) != tokens).any() or (handed != np.eye(10)[tokens]).any():
        return ("Every place looks where it should, but is not handed the letter: x @ W_v should "
                "be the one-hot letter and nothing else.")
    return (f"Every place looks where it should, but at c = {c:.3g} it does not look hard enough: "
            f"its best score is {scores.max():.3g} before the root.")


def hardest(string):
    """Judge a string of eight letters, or of their numbers: is it as hard as any?"""
    letters = "".join(string) if isinstance(string, list | tuple) and all(
        isinstance(one, str) for one in string) else string
    tokens = [LETTERS.find(one) for one in letters.lower()] if isinstance(letters, str) else [
        int(one) for one in np.ravel(to_numpy(letters))]
    if len(tokens) != 8 or not set(tokens) <= set(range(10)):
        return f"{string!r} is not eight of the letters a to j."
    needs = max(_needed(tokens, place) for place in range(8))
    if needs == -math.inf:
        return f"In {string!r} a place reads the right letter wherever it looks: none is easier."
    if needs < BOUND - 1e-9:
        return (f"{string!r} needs c over {needs:.3g} only; another string needs more. What may "
                "the seven others say?")
    return ""


def _needed(tokens, place):
    """Return the c above which the letter at a place outweighs every other letter."""
    counts = np.bincount(tokens, minlength=10)
    same, rivals = counts[tokens[place]], np.delete(counts, tokens[place]).max()
    if not rivals:
        return -math.inf
    return ROOT * math.log(rivals - same + 1) if rivals >= same else -math.inf
