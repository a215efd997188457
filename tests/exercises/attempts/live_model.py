"""Attempts at the exercises on the model that runs in the browser."""

import numpy as np

GROWTH = {"2.1": 1.06, "2.2": 0.79, "both": 9.27, "one shows all": False}

RIGHT = {
    "who_helps": [[(0, 0), (0, 1), (0, 2)], {(0, 2), (0, 1), (0, 0)},
                  np.array([[0, 1], [0, 0], [0, 2]]), [[0, 0], [0, 1], [0, 2]]],
    "two_at_once": [GROWTH, GROWTH | {"2.1": np.log2(0.821 / 0.394), "both": 9.3}]}

WRONG = {
    "who_helps": [
        ([(0, 0), (0, 1), (0, 2), (3, 3)], "Only earlier layers"),
        ([(0, 0), (0, 1)], "1 more"),
        ([(0, 0), (0, 1), (0, 2), (2, 1)], "Without 2.1 alone"),
        ([(1, 4)], "There is no head 1.4"),
        ([0.0, 0.1, 0.2], "Write a list of pairs"),
        ("0.0", "Write a list of pairs"),
        ([(0, 0, 1)], "Write a list of pairs")],
    "two_at_once": [
        (GROWTH | {"2.1": 1.345}, "2.1: 1.345 is not correct. That is the surprise"),
        (GROWTH | {"both": 1.06 + 0.79}, "the sum of the two"),
        (GROWTH | {"both": 9.56}, "both: 9.56 is not correct. That is the surprise"),
        (GROWTH | {"one shows all": True}, "Compare `both` with the sum"),
        (GROWTH | {"2.2": None}, "Still open: 2.2"),
        (GROWTH | {"one shows all": 0}, "Answer True or False")]}
