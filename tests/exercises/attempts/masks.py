"""Attempts at the exercises on masks."""

import math

import numpy as np
import torch

from utils.masks import causal

DID = {"A": "inverted", "B": "added", "C": "right", "factor": 2.72}


def question_rows(n, question):
    return causal(n) | (np.arange(n)[:, None] < question)


def one_too_many(n, question):
    return causal(n) | (np.arange(n) <= question)


def batched(keep=lambda past, real, tokens: past & real[:, None], front=True, number=0):
    """Return a function from sentences to (tokens, keep), as keep makes it."""
    def program(sentences):
        n = max(map(len, sentences))
        tokens, real = np.full((len(sentences), n), number), np.zeros((len(sentences), n), bool)
        for b, one in enumerate(sentences):
            where = slice(n - len(one), n) if front else slice(len(one))
            tokens[b, where], real[b, where] = one, True
        return tokens, keep(causal(n), real, tokens)

    return program


def as_lists(sentences):
    tokens, keep = batched()(sentences)
    return [tokens.tolist(), torch.tensor(keep)]


RIGHT = {
    "three_programs": [DID, DID | {"factor": math.e}, DID | {"factor": np.float32(2.71)},
                       DID | {"A": "Inverted", "factor": (0.58 / 0.11) / (0.4 / 0.2)},
                       DID | {"factor": (0.15 / 0.16) / (0.1 / 0.3)}],
    "prefix": [lambda n, question: causal(n) | (np.arange(n) < question),
               lambda n, question: torch.as_tensor(causal(n)) | (torch.arange(n) < question)],
    "batch": [batched(), as_lists,
              batched(lambda past, real, tokens: past & real[:, None] & real[:, :, None]),
              batched(lambda past, real, tokens: past & real[:, None] | ~real[:, :, None])]}

WRONG = {
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
        (lambda n, question: causal(n, m=3), "raises TypeError, at")],
    "batch": [
        (batched(lambda past, real, tokens: past & (tokens != 0)[:, None]), "A real token 0"),
        (batched(lambda past, real, tokens: past & real[:, :, None]), "masked padded *queries*"),
        (batched(lambda past, real, tokens: past & real[:, None, ::-1]), "masks the end of each"),
        (batched(lambda past, real, tokens: past & np.ones_like(real)[:, None]), "it lets queries"),
        (batched(lambda past, real, tokens: real[:, None] & np.ones_like(past)), "not causal"),
        (batched(lambda past, real, tokens: ~(past & real[:, None])), "yours is inverted"),
        (batched(lambda past, real, tokens: past | real[:, None]), "allowed by both masks"),
        (batched(lambda past, real, tokens: past & real[:, None] & ~np.eye(len(past), dtype=bool)),
         "its own token, too"),
        (batched(lambda past, real, tokens: past.T & real[:, None]), "yours says the opposite"),
        (batched(lambda past, real, tokens: (past & real[:, None]).astype(float)), "float64"),
        (batched(lambda past, real, tokens: real[:, None]), "so it is not causal"),
        (batched(lambda past, real, tokens: past), "one mask for all sentences"),
        (batched(lambda past, real, tokens: real), "nothing of the queries"),
        (batched(front=False), "The padding stands at the end"),
        (batched(number=-1), "The padding is -1, not 0"),
        (lambda sentences: batched()([one[::-1] for one in sentences]), "Row 0 of the tokens"),
        (lambda sentences: batched()(sentences)[0], "must return two arrays"),
        (lambda sentences: np.array(sentences), "raises ValueError")]}
