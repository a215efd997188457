"""Attempts at the exercises on weights and interfaces."""

import numpy as np
import torch
from einops import rearrange

from utils.parity import weights


def moved(rows, n_heads):
    packed = rows.reshape(-1, 3, n_heads, *rows.shape[1:])
    return np.moveaxis(packed, 0, 2).reshape(rows.shape)


def by_einops(rows, n_heads):
    return rearrange(rows, "(d k h) ... -> (k h d) ...", k=3, h=n_heads)


def by_index(rows, n_heads):
    d = len(rows) // (3 * n_heads)
    return np.array([rows[3 * n_heads * n + n_heads * k + h]
                     for k in range(3) for h in range(n_heads) for n in range(d)])


def as_tensor(rows, n_heads):
    return by_einops(torch.as_tensor(rows), n_heads)


def answer(function, in_place=2):
    return {"function": function, "in_place": in_place}


def einops(pattern):
    return answer(lambda rows, n_heads: rearrange(rows, pattern, k=3, h=n_heads))


def converted(arrays):
    return weights.to_gpt2(weights.from_keras(arrays))


def by_hand(arrays, pattern="i h d -> i (h d)", out="h d o -> (h d) o", order=(0, 1, 2)):
    w = np.concatenate([rearrange(arrays[n], pattern) for n in order], axis=1)
    out = rearrange(arrays[3], out)
    return [{"w": w, "b": np.zeros(w.shape[1])}, {"w": out, "b": np.zeros(out.shape[1])}]


def changed(**parts):
    """Return by_hand with some entries of its two dicts replaced by functions of them."""
    def convert(arrays):
        c_attn, c_proj = by_hand(arrays)
        for name, part in (("c_attn", c_attn), ("c_proj", c_proj)):
            if name in parts:
                part.update(parts[name](part))
        return c_attn, c_proj
    return convert


def without_biases(arrays):
    return [{"w": part["w"]} for part in by_hand(arrays)]


def head_by_head(arrays):
    c_attn, c_proj = by_hand(arrays)
    c_attn["w"] = rearrange(c_attn["w"], "i (k h d) -> i (h k d)", k=3, h=2)
    return c_attn, c_proj


RIGHT = {
    "dimension_first": [answer(moved), answer(by_einops, np.int64(2)), answer(by_index),
                        answer(as_tensor)],
    "keras_to_gpt2": [converted, by_hand, lambda arrays: tuple(by_hand(arrays))]}

WRONG = {
    "dimension_first": [
        (answer(lambda rows, n_heads: rows), "every row is where it was"),
        (einops("(k h d) ... -> (d k h) ..."), "which is the inverse"),
        (einops("(d h k) ... -> (k h d) ..."), "it reads the rows as (d, h, 3)"),
        (einops("(k d h) ... -> (k h d) ..."), "it reads the rows as (3, d, h)"),
        (einops("(d k h) ... -> (h k d) ..."), "the result is (h, 3, d)"),
        (einops("(d k h) ... -> (k d h) ..."), "the result is (3, d, h)"),
        (einops("(d k h) ... -> k h d ..."), "must keep their shape"),
        (answer(lambda rows, n_heads: rows[::-1]), "in an order that is neither"),
        (answer(moved, 24), "the two orders would be the same"),
        (answer(moved, 0), "Where is dimension 0"),
        (answer(moved, 1), "Where is the last dimension"),
        (answer(moved, 3), "Count the labels"),
        (answer(moved, None), "Still open: in_place"),
        (moved, "a dict with the keys")],
    "keras_to_gpt2": [
        (without_biases, "What does a missing bias add"),
        (head_by_head, "packed head by head"),
        (lambda arrays: by_hand(arrays, "i h d -> i (d h)"), "c_attn w: the axes h and d"),
        (lambda arrays: by_hand(arrays, out="h d o -> (d h) o"), "c_proj w: the axes h and d"),
        (lambda arrays: by_hand(arrays, order=(0, 2, 1)), "k and v are exchanged"),
        (lambda arrays: by_hand(arrays, order=(1, 0, 2)), "q and k are exchanged"),
        (changed(c_attn=lambda part: {"w": part["w"].T}), "GPT-2 stores (in, out)"),
        (changed(c_attn=lambda part: {"b": np.zeros(8)}), "c_attn b must be (24,), not (8,)"),
        (changed(c_proj=lambda part: {"b": part["b"] + 1}), "the numbers are not those"),
        (lambda arrays: by_hand(arrays)[0], "two dicts"),
        (lambda arrays: weights.to_gpt2(weights.from_dense(arrays)), "raises ValueError")]}
