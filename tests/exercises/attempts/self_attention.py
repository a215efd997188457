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

def column(**numbers):
    """Return (7, 1): the numbers of named columns, and 0 elsewhere."""
    names = ["person", "animal", "action", "time", "article", "owning", "many"]
    return np.array([[numbers.get(name, 0.0)] for name in names])


SECOND = {"W_q": column(animal=2, action=-2), "W_k": column(owning=1), "W_v": column(person=1)}
BEFORE = {"picture": [7, 0, 1, 2, 3, 4, 5, 6], "pairs": 0, "one_matrix": False}

RIGHT = {
    "reversal": [REVERSAL, {"matrices": in_numpy, "c": 5.504, "hardest": list("jjjjjajj")},
                 REVERSAL | {"hardest": "ABBBBBBB", "c": 5.55},
                 REVERSAL | {"matrices": placed(EYE, MIRROR),
                             "hardest": torch.tensor([[3, 3, 3, 3, 3, 3, 3, 0]])}],
    "second_head": [SECOND, {name: torch.tensor(W).float() for name, W in SECOND.items()},
                    SECOND | {"W_q": column(animal=1, action=-1).tolist(), "W_k": column(owning=3)},
                    SECOND | {"W_q": column(animal=2, action=-2, owning=-1)}],
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
    "second_head": [
        (SECOND | {"W_q": column(animal=2)}, "lost gives their 1.00 of its weight, too. The first"),
        (SECOND | {"W_q": np.ones((7, 1))}, "All tokens attend to their"),
        (SECOND | {"W_q": column(animal=0.4, action=-0.4)}, "with a weight of 0.50 only"),
        (SECOND | {"W_q": column(animal=2, time=2, action=-2)}, "yesterday gives their"),
        (SECOND | {"W_q": column(owning=1), "W_k": column(animal=1)}, "its query, or every key"),
        (SECOND | {"W_q": column()}, "attends to all six tokens equally"),
        (SECOND | {"W_k": column(person=1)}, "students who own nothing"),
        (SECOND | {"W_k": column(many=1)}, "dog attends to students and to their equally"),
        (SECOND | {"W_k": column(animal=1)}, "dog attends most to dog"),
        (SECOND | {"W_v": column(owning=1)}, "receive 2.00, too: W_v must"),
        (SECOND | {"W_v": column(time=1)}, "receives next to nothing"),
        (SECOND | {"W_v": column(person=0.5, owning=0.5)}, "not what it is"),
        (SECOND | {"W_v": column(person=2)}, "receives 3.93"),
        (SECOND | {"W_v": np.zeros(7)}, "W_v is (7,), not (7, 1)"),
        (SECOND | {"W_k": None}, "Still open: W_k"),
        ([1, 2], "a dict with the keys")],
    "letter_before": [
        (BEFORE | {"picture": [1, 2, 3, 4, 5, 6, 7, 0]}, "the letter *after*"),
        (BEFORE | {"picture": list(range(7, -1, -1))}, "That reverses"),
        (BEFORE | {"picture": [8, *range(1, 8)]}, "counted from 0"),
        (BEFORE | {"picture": np.eye(8)}, "Give eight numbers"),
        (BEFORE | {"pairs": 4}, "That holds for reversing"),
        (BEFORE | {"pairs": 8}, "To which does 2 attend"),
        (BEFORE | {"one_matrix": True}, "through all rows")]}
