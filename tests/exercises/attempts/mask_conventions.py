"""Attempts at the exercises on mask conventions."""

import math

import numpy as np
import torch

from utils import reference

MASK = np.array([[True, True, False]] * 2)  # (i, j)


def weights(attention):
    """Return the weights of an attention with unit vectors for values."""
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, 1, 2, 4)), rng.standard_normal((1, 1, 3, 4))
    return attention(q, k, np.eye(3)[None, None], MASK)


def convention(attention):
    seen = weights(attention)
    if np.allclose(seen[..., 2], 0):
        return "attend"
    return "drop" if np.allclose(seen[..., :2], 0) else "added"


def by_changing_values(attention):
    """Change a masked value and see whether the output changes."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 3, n, 4)) for n in (2, 3, 3))
    before = attention(q, k, v, MASK)
    changed = []
    for j in 0, 2:
        new = v.copy()
        new[:, :, j] += 1
        changed.append(np.abs(attention(q, k, new, MASK) - before).max() > 1e-9)
    return {(True, False): "attend", (False, True): "drop", (True, True): "added"}[tuple(changed)]


def by_the_reference(attention):
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((1, 2, n, 4)) for n in (2, 3, 3))
    seen = attention(q, k, v, MASK)
    for word, meant in (("attend", {"keep": MASK}), ("drop", {"keep": ~MASK})):
        if np.allclose(seen, reference.attention(q, k, v, **meant)[0]):
            return word
    return "added"


def masks_of(tokens):
    n = tokens.shape[1]
    return {"src_mask": torch.ones(n, n).triu(1).bool(), "src_key_padding_mask": tokens == 0}


def to_add(tokens):
    """Return both masks as floats of 0 and -inf."""
    return {name: torch.zeros(mask.shape).masked_fill(mask, -math.inf)
            for name, mask in masks_of(tokens).items()}


def changed(**new):
    """Return an attempt in which some masks are made by other functions, of tokens."""
    return lambda tokens: masks_of(tokens) | {name: make(tokens) for name, make in new.items()}


RIGHT = {"convention": [convention, by_changing_values, by_the_reference],
         "layer_masks": [masks_of, to_add, changed(src_mask=lambda tokens: ~torch.ones(
             tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril())]}

WRONG = {
    "convention": [
        (lambda attention: "attend", "for every program"),
        (lambda attention: {"attend": "drop", "drop": "attend"}.get(
            convention(attention), "added"), "the wrong way round"),
        (lambda attention: "attend" if convention(attention) == "attend" else "drop",
         "'drop' for a program that adds"),
        (lambda attention: "drop" if convention(attention) == "drop" else "added",
         "'added' for a program in which True means attend"),
        (lambda attention: weights(attention)[..., 2].sum() == 0, "not np.True_"),
        (lambda attention: attention(*np.ones((3, 1, 1, 3, 4)), np.ones((3, 3))), "bool mask"),
        (convention(lambda *given: np.zeros((1, 1, 2, 3))), "without calling it")],
    "layer_masks": [
        (changed(src_key_padding_mask=lambda tokens: tokens == 1), "src_key_padding_mask: it is "
         "inverted"),
        (changed(src_mask=lambda tokens: torch.ones(tokens.shape[1], tokens.shape[1]).tril()
                 .bool()), "src_mask: it is inverted"),
        (changed(src_key_padding_mask=lambda tokens: tokens), "raises an error. Make it bool"),
        (changed(src_key_padding_mask=lambda tokens: tokens.float()), "these mask nothing"),
        (changed(src_key_padding_mask=lambda tokens: (tokens == 0)[:, None, None]),
         "the shape is (2, 1, 1, 5)"),
        (changed(src_mask=lambda tokens: torch.ones(tokens.shape[1], tokens.shape[1]).triu()
                 .bool()), "the diagonal must not be dropped"),
        (changed(src_mask=lambda tokens: torch.ones(tokens.shape[1], tokens.shape[1]).triu(2)
                 .bool()), "element (0, 1) is not dropped"),
        (changed(src_mask=lambda tokens: np.zeros((5, 5))), "not ndarray"),
        (lambda tokens: to_add(tokens) | {"src_mask": masks_of(tokens)["src_mask"]},
         "different dtypes"),
        (lambda tokens: (masks_of(tokens)["src_mask"], tokens == 0), "a dict with the keys")]}
