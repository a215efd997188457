"""Attempts at the exercises of the page for one hour."""

import numpy as np
import torch

from utils import reference


def softmax(x):
    exps = np.exp(x - x.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def attend(scale=np.sqrt, hide=lambda scores, keep: np.where(keep, scores, -np.inf), axis=-1):
    def program(q, k, v, keep):
        scores = hide(q @ k.T / scale(k.shape[-1]), keep)
        exps = np.exp(scores - scores.max(axis=axis, keepdims=True))
        return exps / exps.sum(axis=axis, keepdims=True) @ v
    return program


def loops(q, k, v, keep):
    out = []
    for i, query in enumerate(q):
        scores = [sum(query * key) / len(key) ** 0.5 if keep[i, j] else float("-inf")
                  for j, key in enumerate(k)]
        out.append(sum(w * value for w, value in zip(softmax(np.array(scores)), v, strict=True)))
    return out


def in_torch(q, k, v, keep):
    q, k, v, keep = map(torch.as_tensor, (q, k, v, keep))
    scores = (q @ k.T / k.shape[-1] ** 0.5).masked_fill(~keep, float("-inf"))
    return scores.softmax(dim=-1) @ v


def lines(q, k, v, keep):
    return softmax(np.where(keep, q @ k / np.sqrt(k.shape[-1]), -np.inf)) @ v


def own_triangle(q, k, v, keep):
    scores = q @ k.T / np.sqrt(k.shape[-1])
    return softmax(np.where(np.tri(len(q), len(k), dtype=bool), scores, -np.inf)) @ v


def no_return(q, k, v, keep):
    softmax(np.where(keep, q @ k.T, -np.inf)) @ v


def with_weights(q, k, v, keep):
    weights = softmax(np.where(keep, q @ k.T / np.sqrt(k.shape[-1]), -np.inf))
    return weights @ v, weights


def threshold(logits, n):
    return softmax(np.where(logits >= np.sort(logits)[-n], logits, -np.inf))


def by_place(logits, n):
    kept = np.full(len(logits), -np.inf)
    for place in logits.argsort()[-n:]:
        kept[place] = logits[place]
    return softmax(kept)


def divided_again(logits, n):
    chances = softmax(logits)
    chances[logits < np.sort(logits)[-n]] = 0
    return chances / chances.sum()


def cut_after(logits, n):
    return softmax(logits) * (logits >= np.sort(logits)[-n])


def no_result(logits, n):
    softmax(logits)


RIGHT = {
    "from_memory": [attend(), loops, in_torch,
                    lambda q, k, v, keep: reference.attention(q, k, v, keep)[0]],
    "only_the_best": [threshold, by_place, divided_again,
                      lambda logits, n: threshold(logits, n).tolist()],
}
WRONG = {
    "from_memory": [
        (attend(scale=lambda d: 1), "no scale"),
        (attend(scale=lambda d: d), "scaled twice"),
        (attend(hide=lambda scores, keep: scores), "mask ignored"),
        (attend(hide=lambda scores, keep: np.where(keep, scores, 0)), "masked scores are set to 0"),
        (attend(hide=lambda scores, keep: np.where(keep, -np.inf, scores)), "The mask is inverted"),
        (attend(axis=0), "softmax over queries"),
        (own_triangle, "mask ignored"),
        (lines, "mismatch"),
        (no_return, "returns None"),
        (with_weights, "Return the contexts alone"),
    ],
    "only_the_best": [
        (cut_after, "do not sum to 1"),
        (lambda logits, n: softmax(np.where(logits >= np.sort(logits)[-n], logits, 0.0)),
         "exp(0) is 1"),
        (lambda logits, n: softmax(np.sort(logits)[-n:]), "3 numbers for 7 characters"),
        (lambda logits, n: softmax(np.where(logits <= np.sort(logits)[n - 1], logits, -np.inf)),
         "the n smallest logits"),
        (lambda logits, n: softmax(np.where(logits > np.sort(logits)[-n], logits, -np.inf)),
         "one too few"),
        (lambda logits, n: softmax(logits), "No character is left out"),
        (lambda logits, n: np.sort(threshold(logits, n))[::-1], "sorted"),
        (lambda logits, n: logits.argsort()[-n:], "3 numbers for 7 characters"),
        (lambda logits, n: threshold(logits, n)[None], "has the shape (1, 7)"),
        (no_result, "returns None"),
    ],
}
