"""Attempts at the exercises on self-attention."""

import math

import numpy as np
import torch

BOUND = math.sqrt(8) * math.log(7)


def placed(ask, offer, values=((0, 1),), power=(1, 0)):
    """Return an answer: what the places ask and offer, and (first row, factor) of W_v."""
    def written_down(c):
        W_q, W_k, W_v = (torch.zeros(18, width) for width in (8, 8, 10))
        W_q[10:], W_k[10:] = c ** power[0] * ask, c ** power[1] * offer
        for row, factor in values:
            W_v[row:row + 10][:10] += factor * torch.eye(10)[:len(W_v[row:row + 10])]
        return W_q, W_k, W_v

    return written_down


def in_numpy(c):
    W_q, W_k = np.zeros((18, 8)), np.zeros((18, 8))
    order = np.random.default_rng(0).permutation(8)
    W_q[10:], W_k[10:] = np.eye(8)[:, order], c * np.eye(8)[::-1][:, order]
    return [W_q, W_k, np.eye(18, 10).tolist()]


def by_letters(c):
    W_q, W_k, W_v = (torch.eye(18, width) for width in (8, 8, 10))
    return c * W_q, W_k, W_v


def halves(c):
    W_q, W_k, W_v = REVERSAL["matrices"](c)
    W_k[10:14] = 1
    return W_q, W_k, W_v


EYE, MIRROR = torch.eye(8), torch.eye(8).fliplr()
REVERSAL = {"matrices": placed(MIRROR, EYE), "c": BOUND, "hardest": "abbbbbbb"}
TIED = {"mirrored": 4, "letters": 0.55, "strings": 0.0001}
BEFORE = {"picture": [7, 0, 1, 2, 3, 4, 5, 6], "pairs": 0, "one_matrix": False}

RIGHT = {
    "reversal": [REVERSAL, {"matrices": in_numpy, "c": 5.504, "hardest": list("jjjjjajj")},
                 REVERSAL | {"hardest": "ABBBBBBB", "c": 5.55},
                 REVERSAL | {"matrices": placed(EYE, MIRROR),
                             "hardest": torch.tensor([[3, 3, 3, 3, 3, 3, 3, 0]])}],
    "one_for_two": [TIED, TIED | {"letters": np.float32(0.55), "strings": 1 / 10 ** 4}],
    "letter_before": [BEFORE, BEFORE | {"picture": torch.arange(8).roll(1)},
                      BEFORE | {"picture": np.roll(np.arange(8), 1), "one_matrix": np.False_}]}

WRONG = {
    "reversal": [
        (REVERSAL | {"matrices": placed(EYE, EYE)}, "its query equals its own key"),
        (REVERSAL | {"matrices": placed(MIRROR, MIRROR)}, "the scores stay the same"),
        (REVERSAL | {"matrices": placed(MIRROR, EYE, power=(1, 1))}, "not c. Where"),
        (REVERSAL | {"matrices": placed(MIRROR, EYE, power=(0, 0))}, "its weight is too small"),
        (REVERSAL | {"matrices": placed(MIRROR, EYE, ((8, 1),))}, "the values are wrong"),
        (REVERSAL | {"matrices": placed(EYE.roll(1, 0), EYE)},
         "Position 1 attends to position 0, not to"),
        (REVERSAL | {"matrices": placed(0 * EYE, EYE)}, "attends equally to all positions"),
        (REVERSAL | {"matrices": by_letters}, "depend on the letters"),
        (REVERSAL | {"matrices": halves}, "two keys with the same best score"),
        (REVERSAL | {"matrices": lambda c: [W.mT for W in placed(MIRROR, EYE)(c)]},
         "W_q is (8, 18), not (18, 8)"),
        (REVERSAL | {"matrices": lambda c: c * torch.eye(18)}, "must return three matrices"),
        (REVERSAL | {"matrices": lambda c: torch.zeros(18, 8)[8] @ c}, "raises TypeError, at"),
        (REVERSAL | {"matrices": REVERSAL["matrices"](6.0)}, "its name, without calling it"),
        (REVERSAL | {"c": "5.5"}, "Write one number"),
        (REVERSAL | {"c": math.log(7)}, "divides every score"),
        (REVERSAL | {"c": 5.88}, "How many others are there"),
        (REVERSAL | {"c": 5.5}, "the hardest strings are not reversed. Round up"),
        (REVERSAL | {"c": 5.6}, "It is large enough, but not the smallest"),
        (REVERSAL | {"c": 10}, "It is large enough, but not the smallest"),
        (REVERSAL | {"c": 5}, "It fails on some strings. The mirror image gets"),
        (REVERSAL | {"c": None}, "Still open: c"),
        (REVERSAL | {"hardest": "aaaaaaaa"}, "this is the easiest string"),
        (REVERSAL | {"hardest": "abcdefgh"}, "it is enough that c exceeds 0;"),
        (REVERSAL | {"hardest": "aabbbbbb"}, "it is enough that c exceeds 4.55;"),
        (REVERSAL | {"hardest": "reversal"}, "does not consist of eight letters")],
    "one_for_two": [
        (TIED | {"letters": 0.5}, "Is that ever right"),
        (TIED | {"letters": 0.6}, "Only the half"),
        (TIED | {"letters": 55}, "a number from 0 to 1"),
        (TIED | {"mirrored": 8}, "and 7 would prefer 0"),
        (TIED | {"strings": 0.55 ** 8}, "treats all eight letters alike"),
        (TIED | {"strings": 0}, "right only by luck"),
        ({"letters": 0.55}, "a dict with the keys")],
    "letter_before": [
        (BEFORE | {"picture": [1, 2, 3, 4, 5, 6, 7, 0]}, "the letter *after*"),
        (BEFORE | {"picture": list(range(7, -1, -1))}, "That reverses"),
        (BEFORE | {"picture": [8, *range(1, 8)]}, "counted from 0"),
        (BEFORE | {"picture": np.eye(8)}, "Give eight numbers"),
        (BEFORE | {"pairs": 4}, "That holds for reversing"),
        (BEFORE | {"pairs": 8}, "To which does 2 attend"),
        (BEFORE | {"one_matrix": True}, "through all rows")]}
