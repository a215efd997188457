"""Attempts at the exercises on the encoder and the decoder."""

import math
from fractions import Fraction

import numpy as np
import torch

from utils.attention.heads import merge_heads, split_heads
from utils.attention.torch import attention

SILENCE = {"a": "x", "b": "norm(x)", "c": "norm(x)", "d": "x", "before": 1 / 25, "after": 2 ** -24}
BATCHES = {"neither": ([7, 4], [7, 4]), "padding": ([4, 7], [6, 7]), "words": ([6, 7], [4, 7]),
           "both": ([4, 6], [6, 4])}


def side(memory, W, letter, n_heads):
    return split_heads(memory @ W[f"W_{letter}"] + W[f"b_{letter}"], n_heads)


def read(memory, W, n_heads):
    return side(memory, W, "k", n_heads), side(memory, W, "v", n_heads)


def look(x, was_read, W, n_heads, keep):
    context, _ = attention(side(x, W, "q", n_heads), *was_read, keep)
    return merge_heads(context) @ W["W_o"] + W["b_o"]


def packed(memory, W, n_heads):
    both = memory @ torch.cat([W["W_k"], W["W_v"]], dim=1) + torch.cat([W["b_k"], W["b_v"]])
    return {"keys": both.chunk(2, dim=-1)[0], "values": both.chunk(2, dim=-1)[1]}


def by_hand(x, was_read, W, n_heads, keep):
    q = x @ W["W_q"] + W["b_q"]
    d = q.shape[-1] // n_heads
    contexts = []
    for h in range(n_heads):
        stripe = slice(h * d, (h + 1) * d)
        scores = q[..., stripe] @ was_read["keys"][..., stripe].mT / math.sqrt(d)
        scores = scores.masked_fill(~keep[:, 0], -math.inf)
        contexts.append(scores.softmax(-1) @ was_read["values"][..., stripe])
    return torch.cat(contexts, dim=-1) @ W["W_o"] + W["b_o"]


def answer(read=read, look=look):
    return {"read": read, "look": look}


def swapped(memory, W, n_heads):
    return read(memory, W, n_heads)[::-1]


def without_bias(memory, W, n_heads):
    return tuple(split_heads(memory @ W[name], n_heads) for name in ("W_k", "W_v"))


def forgets_keep(x, was_read, W, n_heads, keep):
    return look(x, was_read, W, n_heads, None)


def inverted(x, was_read, W, n_heads, keep):
    return look(x, was_read, W, n_heads, ~keep)


def unscaled(x, was_read, W, n_heads, keep):
    scores = side(x, W, "q", n_heads) @ was_read[0].mT
    weights = scores.masked_fill(~keep, -math.inf).softmax(-1)
    return merge_heads(weights @ was_read[1]) @ W["W_o"] + W["b_o"]


def torn_merge(x, was_read, W, n_heads, keep):
    context, _ = attention(side(x, W, "q", n_heads), *was_read, keep)
    return context.reshape(x.shape) @ W["W_o"] + W["b_o"]


def no_output_projection(x, was_read, W, n_heads, keep):
    return merge_heads(attention(side(x, W, "q", n_heads), *was_read, keep)[0])


def reads_again(x, was_read, W, n_heads, keep):
    k, v = (side(was_read, W, letter, n_heads) for letter in "kv")
    return look(x, (k, v), W, n_heads, keep)


def returns_both(x, was_read, W, n_heads, keep):
    return attention(side(x, W, "q", n_heads), *was_read, keep)


RIGHT = {
    "silence": [SILENCE, SILENCE | {"before": Fraction(1, 25), "a": " X "},
                SILENCE | {"before": np.float64(0.04), "after": 6e-8}],
    "whose_padding": [BATCHES,
                      {"neither": [[3], [3]], "padding": [[3], [5]], "words": [[5], [3]],
                       "both": (np.array([3, 5, 7]), np.array([4, 2, 7]))},
                      BATCHES | {"padding": [(1, 2, 7), (7, 2, 7)]}],
    "read_once": [answer(), answer(packed, by_hand)]}

WRONG = {
    "silence": [
        (SILENCE | {"a": "norm(x)"}, "goes only into f"),
        (SILENCE | {"b": "x"}, "applies to the whole sum"),
        (SILENCE | {"c": "x"}, "What replaces x"),
        (SILENCE | {"d": "norm(x)"}, "the norm of zeros is zeros"),
        (SILENCE | {"before": 1 / 24}, "the token itself counts, too"),
        (SILENCE | {"before": 1 / 13, "after": 2 ** -12}, "How many sublayers have twelve layers"),
        (SILENCE | {"before": 2 ** -24, "after": 1 / 25}, "the answer for the norm after"),
        (SILENCE | {"before": 0.5}, "The variances of independent parts add up"),
        (SILENCE | {"after": 2 ** -23}, "one sum too few"),
        (SILENCE | {"after": 0.5}, "And after two?"),
        (SILENCE | {"after": None}, "Still open: after"),
        (SILENCE | {"before": "1/25"}, "Write one number"),
        (["x"], "a dict with the keys")],
    "whose_padding": [
        (BATCHES | {"neither": ([7, 7], [7, 7])}, "no source is padded"),
        (BATCHES | {"neither": ([4, 7], [7, 4])}, "caught by both probes"),
        (BATCHES | {"padding": ([6, 7], [4, 7])}, "caught by the words probe alone"),
        (BATCHES | {"words": ([4, 7], [6, 7])}, "caught by the padding probe alone"),
        (BATCHES | {"both": ([4, 7], [4, 7])}, "caught by neither probe"),
        (BATCHES | {"both": None}, "Still open: both"),
        (BATCHES | {"both": ([4, 7], [4])}, "each source has one target"),
        (BATCHES | {"both": ([4, 9], [9, 4])}, "the lengths must be from 1 to 7"),
        (BATCHES | {"both": [4, 7]}, "write two lists of lengths"),
        (BATCHES | {"both": ([4.5], [4])}, "write two lists of lengths"),
        ({"neither": ([4], [4])}, "a dict with the keys")],
    "read_once": [
        (answer(look=None), "Still open: look"),
        (answer(read=lambda memory, W, n_heads: ...), "Still open: read"),
        (answer(swapped), "The doctor says"),
        (answer(without_bias), "bias"),
        (answer(look=forgets_keep), "The mask has no effect"),
        (answer(look=inverted), "attends where keep is False"),
        (answer(look=unscaled), "scale"),
        (answer(look=torn_merge), "merge without transpose"),
        (answer(look=no_output_projection), "W_o"),
        (answer(lambda memory, W, n_heads: memory, reads_again),
         "W_k is not among the parameters here"),
        (answer(look=returns_both), "look returns tuple"),
        (answer(look=lambda x: x), "raises TypeError"),
        (look, "a dict with the keys 'read', 'look'")]}
