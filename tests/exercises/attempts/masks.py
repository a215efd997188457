"""Attempts at the exercises on masks."""

import math

import numpy as np
import torch

from utils.masks import causal

GRIDS = {"2x5 top_left": [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
         "2x5 bottom_right": [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]],
         "5x2 top_left": [[1, 0], [1, 1], [1, 1], [1, 1], [1, 1]],
         "5x2 bottom_right": [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]}
DID = {"A": "inverted", "B": "added", "C": "right", "factor": 2.72}


def question_rows(n, question):
    return causal(n) | (np.arange(n)[:, None] < question)


def one_too_many(n, question):
    return causal(n) | (np.arange(n) <= question)


RIGHT = {
    "corners": [GRIDS, {name: np.array(grid, bool) for name, grid in GRIDS.items()},
                {name: torch.tensor(grid) * 1.0 for name, grid in GRIDS.items()}],
    "three_programs": [DID, DID | {"factor": math.e}, DID | {"factor": np.float32(2.71)},
                       DID | {"A": "Inverted", "factor": (0.58 / 0.11) / (0.4 / 0.2)},
                       DID | {"factor": (0.15 / 0.16) / (0.1 / 0.3)}],
    "prefix": [lambda n, question: causal(n) | (np.arange(n) < question),
               lambda n, question: torch.as_tensor(causal(n)) | (torch.arange(n) < question)]}

WRONG = {
    "corners": [
        (GRIDS | {"2x5 top_left": GRIDS["2x5 bottom_right"]}, "the other causal alignment"),
        (GRIDS | {"2x5 top_left": [[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]]}, "marked what is masked"),
        (GRIDS | {"5x2 bottom_right": [[0, 0], [0, 0], [0, 0], [0, 0], [1, 0]]},
         "at its own position, too"),
        (GRIDS | {"5x2 top_left": GRIDS["2x5 top_left"]}, "5 rows of 2"),
        (GRIDS | {"5x2 top_left": None}, "Still open: 5x2 top_left"),
        (GRIDS | {"2x5 bottom_right": [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1]]}, "row 0 is wrong"),
        (GRIDS | {"2x5 top_left": np.where(GRIDS["2x5 top_left"], 0, -np.inf)}, "write 1 where"),
        (GRIDS["2x5 top_left"], "a dict with the keys")],
    "three_programs": [
        (DID | {"A": "right"}, "what does keep say about them"),
        (DID | {"B": "inverted"}, "so none of them is masked"),
        (DID | {"factor": 1.0}, "odds are a ratio of exps"),
        (DID | {"factor": 0.58 / 0.16}, "Those are the odds after"),
        (DID | {"factor": 0.58 / 0.40}, "its *weight* grew"),
        (DID | {"factor": 1 / math.e}, "a masked key against an allowed one"),
        (DID | {"factor": "e"}, "Write one number"),
        (DID | {"B": "multiplied"}, "Is it right, inverted or added?"),
        (DID | {"C": None}, "Still open: C")],
    "prefix": [
        (lambda n, question: causal(n), "plain causal mask"),
        (lambda n, question: causal(n) & (np.arange(n) < question), "& removes pairs"),
        (question_rows, "which axis holds the keys"),
        (one_too_many, "Query 0 may not attend to key 3"),
        (lambda n, question: ~(causal(n) | (np.arange(n) < question)), "yours is inverted"),
        (lambda n, question: (causal(n) | (np.arange(n) < question)).astype(float), "float64"),
        (lambda n, question: np.arange(n) < question, "(7,), not (7, 7)"),
        (causal(7) | (np.arange(7) < 3), "its name, without calling it"),
        (lambda n, question: causal(n, m=3), "raises TypeError, at")]}
