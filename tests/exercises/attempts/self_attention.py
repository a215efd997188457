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
    "reversal": [REVERSAL, {"matrices": in_numpy, "c": 5.5, "hardest": list("jjjjjajj")},
                 REVERSAL | {"hardest": "ABBBBBBB"},
                 REVERSAL | {"matrices": placed(EYE, MIRROR),
                             "hardest": torch.tensor([[3, 3, 3, 3, 3, 3, 3, 0]])}],
    "one_for_two": [TIED, TIED | {"letters": np.float32(0.55), "strings": 1 / 10 ** 4}],
    "letter_before": [BEFORE, BEFORE | {"picture": torch.arange(8).roll(1)},
                      BEFORE | {"picture": np.roll(np.arange(8), 1), "one_matrix": np.False_}]}

WRONG = {
    "reversal": [
        (REVERSAL | {"matrices": placed(EYE, EYE)}, "asks for exactly what it offers"),
        (REVERSAL | {"matrices": placed(MIRROR, MIRROR)}, "turns nothing"),
        (REVERSAL | {"matrices": placed(MIRROR, EYE, power=(1, 1))}, "not c. Where"),
        (REVERSAL | {"matrices": placed(MIRROR, EYE, power=(0, 0))}, "not look hard enough"),
        (REVERSAL | {"matrices": placed(MIRROR, EYE, ((8, 1),))}, "is not handed the letter"),
        (REVERSAL | {"matrices": placed(EYE.roll(1, 0), EYE)}, "Place 1 looks at place 0, "
                                                               "not at"),
        (REVERSAL | {"matrices": placed(0 * EYE, EYE)}, "looks everywhere alike"),
        (REVERSAL | {"matrices": by_letters}, "depends on the letters"),
        (REVERSAL | {"matrices": halves}, "two keys with the same best score"),
        (REVERSAL | {"matrices": lambda c: [W.mT for W in placed(MIRROR, EYE)(c)]},
         "W_q is (8, 18), not (18, 8)"),
        (REVERSAL | {"matrices": lambda c: c * torch.eye(18)}, "Return three matrices"),
        (REVERSAL | {"matrices": lambda c: torch.zeros(18, 8)[8] @ c}, "raises TypeError, at"),
        (REVERSAL | {"matrices": REVERSAL["matrices"](6.0)}, "its name, without calling it"),
        (REVERSAL | {"c": "5.5"}, "Write one number"),
        (REVERSAL | {"c": math.log(7)}, "divides every score"),
        (REVERSAL | {"c": 5.88}, "How many must it outweigh"),
        (REVERSAL | {"c": 10}, "Large enough, but not the least"),
        (REVERSAL | {"c": 5}, "With that, some strings fail. The mirror image weighs"),
        (REVERSAL | {"c": None}, "Still open: c"),
        (REVERSAL | {"hardest": "aaaaaaaa"}, "none is easier"),
        (REVERSAL | {"hardest": "abcdefgh"}, "needs c over 0 only"),
        (REVERSAL | {"hardest": "aabbbbbb"}, "needs c over 4.55 only"),
        (REVERSAL | {"hardest": "reversal"}, "not eight of the letters")],
    "one_for_two": [
        (TIED | {"letters": 0.5}, "Is that never the right one"),
        (TIED | {"letters": 0.6}, "Only the half"),
        (TIED | {"letters": 55}, "a number from 0 to 1"),
        (TIED | {"mirrored": 8}, "and 7 prefer 0"),
        (TIED | {"strings": 0.55 ** 8}, "eight tosses of one coin"),
        (TIED | {"strings": 0}, "one time in ten each"),
        ({"letters": 0.55}, "a dict with the keys")],
    "letter_before": [
        (BEFORE | {"picture": [1, 2, 3, 4, 5, 6, 7, 0]}, "the letter *after*"),
        (BEFORE | {"picture": list(range(7, -1, -1))}, "That reverses"),
        (BEFORE | {"picture": [8, *range(1, 8)]}, "counted from 0"),
        (BEFORE | {"picture": np.eye(8)}, "Eight numbers are asked for"),
        (BEFORE | {"pairs": 4}, "so when it reverses"),
        (BEFORE | {"pairs": 8}, "Where does place 2 look"),
        (BEFORE | {"one_matrix": True}, "round the circle")]}
