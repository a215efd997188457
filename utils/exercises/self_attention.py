"""The exercises of the chapter on self-attention."""

import math

import numpy as np

from .. import reference
from ..checks import to_numpy
from ._check import Check, Exercise
from ._judges import parts, prediction
from ._self_attention_second_head import second_head

LETTERS, ROOT = "abcdefghij", math.sqrt(8)
BOUND = ROOT * math.log(7)
SHAPES = {"W_q": (18, 8), "W_k": (18, 8), "W_v": (18, 10)}
BOUND_MISTAKES = {
    math.log(7): "The head divides every score, and so divides c.",
    ROOT * math.log(8): "One of the eight keys is the mirror image. How many others are there?",
    8 * math.log(7): "The head divides by a square root, and you divided by the number under it.",
    math.sqrt(18) * math.log(7): "x has 18 dimensions. By which size does the head divide?",
    math.sqrt(6) * math.log(7): "The trained head had six columns. How many do these have?",
    ROOT * math.log(10): "The weight is shared by eight positions, not by ten letters.",
    7 * ROOT: "To outweigh seven others it needs a *weight* seven times as large, not a score.",
    None: "The mirror image gets exp(c divided by something), each other position exp(0). How much "
          "must the first outweigh, in the hardest string?"}


def _matrices(answer):
    """Judge a function from c to (W_q, W_k, W_v), by the strings that they reverse."""
    random = np.random.default_rng(0).integers(10, size=(200, 8))
    hard = [[(n == odd) + 4 for n in range(8)] for odd in range(8)]
    tokens = np.concatenate([random, hard])  # (b, 8)
    for c, should_reverse in ((BOUND + 0.1, True), (20.0, True), (BOUND - 0.1, False)):
        got = answer(c)
        if not isinstance(got, list | tuple) or len(got) != 3:
            return "The function must return three matrices: W_q, W_k, W_v."
        got = [np.asarray(to_numpy(matrix), dtype=float) for matrix in got]
        for matrix, (name, shape) in zip(got, SHAPES.items(), strict=True):
            if matrix.shape != shape:
                return f"{name} is {matrix.shape}, not {shape}; a head computes x @ {name}."
        x = _encode(tokens)
        q, k, v = (x @ matrix for matrix in got)
        written = reference.attention(q, k, v)[0].argmax(axis=-1)  # (b, i)
        scores = q @ k.swapaxes(-1, -2)
        if should_reverse and (written != tokens[:, ::-1]).any():
            return _why_not_reversed(scores, v, tokens, c)
        if not should_reverse and (written == tokens[:, ::-1]).all():
            return (f"They reverse every string, even at c = {c:.3g}: before the division their "
                    f"largest score is {scores.max():.3g}, not c. Where do you use c?")
    return ""


def _encode(tokens):
    positions = np.broadcast_to(np.eye(8), (len(tokens), 8, 8))
    return np.concatenate([np.eye(10)[tokens], positions], axis=-1)


def _why_not_reversed(scores, v, tokens, c):
    """Return why a head does not reverse, by its undivided scores (b, i, j) and its values."""
    best, mirror = scores.argmax(axis=-1), np.arange(8)[::-1]
    ties = np.isclose(np.sort(scores)[..., -1], np.sort(scores)[..., -2])
    if np.ptp(scores, axis=-1).max() == 0:
        return "All scores of a row are equal, so every position attends equally to all positions."
    if not np.allclose(scores, scores[:1]):
        return ("The scores depend on the letters. Which rows of W_q and W_k does a letter "
                "multiply?")
    if ties.any():
        return (f"Position {np.argwhere(ties)[0][1]} has two keys with the same best score. What "
                "is the key of each position?")
    if (best == np.arange(8)).all():
        return ("Every position attends to itself: its query equals its own key. (If you reverse "
                "both queries and keys, the scores stay the same.)")
    if (best != mirror).any():
        row = np.argwhere(best != mirror)[0][1]
        return (f"Position {row} attends to position {best[0, row]}, not to its mirror image "
                f"{7 - row}.")
    if (v != np.eye(10)[tokens]).any():
        return ("Every position attends to the right one, but the values are wrong: x @ W_v should "
                "be the one-hot letter and nothing else.")
    return (f"Every position attends most to the right one, but at c = {c:.3g} its weight is too "
            f"small: its best score is {scores.max():.3g} before the division.")


def _bound(c):
    """Judge the number that c must exceed: it may be rounded up, by 1 % at most, but not down."""
    if isinstance(c, str):
        return prediction(BOUND)(c)
    if 0.99 * BOUND <= c < BOUND * (1 - 1e-6):
        return (f"{c:.5g} is a little too small: with this c, the hardest strings are not "
                "reversed. Round up.")
    size = "It is large enough, but not the smallest." if c > BOUND else "It fails on some strings."
    mistakes = {wrong: f"{size} {why}" for wrong, why in BOUND_MISTAKES.items()}
    return prediction(BOUND, mistakes, 0.01)(c)


def _hardest(string):
    """Judge a string of eight letters, or of their numbers: is it as hard as any?"""
    letters = string
    if isinstance(string, list | tuple) and all(isinstance(one, str) for one in string):
        letters = "".join(string)
    if isinstance(letters, str):
        tokens = [LETTERS.find(letter) for letter in letters.lower()]
    else:
        tokens = [int(one) for one in np.ravel(to_numpy(letters))]
    if len(tokens) != 8 or not set(tokens) <= set(range(10)):
        return f"{string!r} does not consist of eight letters from a to j."
    needs = max(_needed(tokens, position) for position in range(8))
    if needs == -math.inf:
        return (f"In {string!r} every position finds the right letter wherever it attends: this is "
                "the easiest string.")
    if needs < BOUND - 1e-9:
        return (f"For {string!r} it is enough that c exceeds {needs:.3g}; another string needs "
                "more. Which letters could the seven other positions hold?")
    return ""


def _needed(tokens, position):
    """Return the c above which the letter at a position outweighs every other letter."""
    counts = np.bincount(tokens, minlength=10)
    same, most = counts[tokens[position]], np.delete(counts, tokens[position]).max()
    return ROOT * math.log(most - same + 1) if most and most >= same else -math.inf


LETTER_BEFORE = {
    "picture": prediction([7, 0, 1, 2, 3, 4, 5, 6], {
        (1, 2, 3, 4, 5, 6, 7, 0): "That is the letter *after*. roll(1) moves every letter one "
                                  "position to the right.",
        (7, 6, 5, 4, 3, 2, 1, 0): "That reverses. Position 3 must write the letter of position 2.",
        (0, 1, 2, 3, 4, 5, 6, 7): "Then every position writes its own letter.",
        (0, 0, 1, 2, 3, 4, 5, 6): "Position 0 must write the *last* letter.",
        (8, 1, 2, 3, 4, 5, 6, 7): "Positions are counted from 0.",
        (-1, 0, 1, 2, 3, 4, 5, 6): "There is no position −1: they are counted from 0 to 7.",
        None: "Give eight numbers: the position to which each query attends."}),
    "pairs": prediction(0, {4: "That holds for reversing.",
                            None: "Position 3 attends to position 2. To which does 2 attend?"}),
    "one_matrix": prediction(False, "With one matrix, the score of 3 for 2 equals that of 2 for 3. "
                                    "In row 3 it must exceed the score for 4. Continue like this "
                                    "through all rows.")}

check = Check({
    "letter_before": Exercise(parts(LETTER_BEFORE), (
        "tokens.roll(1, dims=-1) of abcdefgh is habcdefg. Where does position 3 find its letter?",
        "Two positions attend to each other if i attends to j and j to i. Follow the positions one "
        "by one: which figure do they form?",
        "With one matrix, s(i, j) = s(j, i). Row i needs s(i, i - 1) > s(i, i + 1) = s(i + 1, i). "
        "Write that down for i = 0 … 7."),
        "With one matrix, scores are symmetric. Then they would have to grow all the way round a "
        "circle of eight positions, which is impossible."),
    "second_head": Exercise(second_head, (
        "Print out.numpy().round(2). Which column is large for their and 0 for all others? Which "
        "columns tell dog from lost?",
        "W_k reads the column that makes their findable. W_q reads animal, but lost has received "
        "that, too: another column has to take it away again.",
        "W_v hands over person. In W_q, give action the negative of what animal has."),
        "Two steps: their asked students, and dog asked their. One head alone could not do that, "
        "because before the first head, their knew no person."),
    "reversal": Exercise(parts({"matrices": _matrices, "c": _bound, "hardest": _hardest}), (
        "Attention must not depend on letters: which rows of W_q and W_k are zero? And which part "
        "of x should the values hold?",
        "Let the key of every position be one-hot, a row of eight. Which query must position 0 "
        "have?",
        "Then the mirror image scores c, before the division, and the seven others 0. They can "
        "outweigh it if all seven hold one and the same other letter."),
        "exp(c / √8) must exceed seven, so c > √8 ln 7. The hardest strings have seven equal "
        "letters and one other; if letters differ, the seven weights go to different letters."),
})
