"""Attempts at the exercises on the decoder's mask."""

import math

import numpy as np
import torch

from utils import masks

AHEAD = {"a": False, "b": True, "c": True, "d": True, "jumps": "d"}
LOADER = {"pairs": 0, "loss": 0}
MASKED_ROWS = {"empty": 3, "ours": "bias", "filled": "all"}


def left(lengths, n):
    words = np.arange(n) >= n - np.asarray(lengths)[:, None]
    return masks.causal(n) & words[:, None, None, :]


def flipped_padding(lengths, n):
    keep = torch.as_tensor(masks.padding(lengths, n)).flip(-1)
    return keep & torch.ones(n, n, dtype=torch.bool).tril()


def is_token(lengths, n):
    return np.arange(n) >= n - np.asarray(lengths)[:, None]


def average(script, letters=16, margin=0.1, last=50):
    return script(letters)[-last:].mean() < math.log(letters) - margin


RIGHT = {
    "who_looks_ahead": [AHEAD, AHEAD | {"a": np.False_, "b": np.True_}],
    "noise": [LOADER | {"cheats": average},
              LOADER | {"loss": torch.tensor(0.02), "cheats": average},
              {"pairs": 0, "loss": 0.02, "cheats": lambda script: float(
                  np.median(script(200)[100:])) < math.log(200) - 0.3}],
    "nothing_to_the_left": [MASKED_ROWS | {"keep": left}, MASKED_ROWS | {"keep": flipped_padding},
                            MASKED_ROWS | {"keep": lambda lengths, n: left(lengths, n) & is_token(
                                lengths, n)[:, None, :, None]}]}

WRONG = {
    "who_looks_ahead": [
        (AHEAD | {"a": True}, "Which positions has cumsum added up"),
        (AHEAD | {"b": False, "c": False}, "by what is a weight of position 0 divided"),
        (AHEAD | {"d": False}, "Over which axis does it count"),
        (AHEAD | {"jumps": "b"}, "A mean changes a little"),
        (AHEAD | {"jumps": None}, "Still open: jumps"),
        (AHEAD | {"a": 0}, "a: 0 is not correct"),
        (["d"], "a dict with the keys")],
    "noise": [
        (LOADER | {"pairs": 21, "cheats": average}, "leaks tests only the program"),
        (LOADER | {"loss": math.log(16) / 8, "cheats": average}, "the input is letter i, too"),
        (LOADER | {"cheats": None}, "Still open: cheats"),
        (LOADER | {"loss": "0", "cheats": average}, "Write one number"),
        (LOADER | {"cheats": lambda script: script(16)[-1] < math.log(16) - 0.1},
         "honest with small batches"),
        (LOADER | {"cheats": lambda script: min(script(16)) < math.log(16)},
         "some of their steps below"),
        (LOADER | {"cheats": lambda script: average(script, margin=0)}, "Leave a margin"),
        (LOADER | {"cheats": lambda script: script(16)[-50:].mean() < 4},
         "near ln V = 2.77 (in nats)"),
        (LOADER | {"cheats": lambda script: average(script, margin=0.4)}, "half of that: 0.17"),
        (LOADER | {"cheats": lambda script: average(script, 2)}, "half of that: 0.04"),
        (LOADER | {"cheats": lambda script: script(16)[-50:].mean() < 0.1}, "no next letter"),
        (LOADER | {"cheats": lambda script: average(script, last=150)},
         "honest for 60 steps"),
        (LOADER | {"cheats": lambda script: script(16)[:50].mean() < 2.7},
         "at the end. Look at the end"),
        (LOADER | {"cheats": lambda script: average(script, 10 ** 6)}, "after 253 of 150 steps"),
        (LOADER | {"cheats": lambda script: not average(script)}, "its result is inverted"),
        (LOADER | {"cheats": lambda script: True}, "never runs the script"),
        (LOADER | {"cheats": lambda script: script(16) < math.log(16)}, "True or False"),
        (LOADER | {"cheats": lambda script: script() < 2}, "raises TypeError")],
    "nothing_to_the_left": [
        (MASKED_ROWS | {"keep": left, "empty": 0},
         "To which positions may position 0 of example 1"),
        (MASKED_ROWS | {"keep": left, "ours": "zeros"}, "What does the decoder still add"),
        (MASKED_ROWS | {"keep": left, "filled": "words"}, "The words are later positions"),
        (MASKED_ROWS | {"keep": None}, "Still open: keep"),
        (MASKED_ROWS | {"keep": lambda lengths, n: masks.decoder(lengths, n)},
         "padding on the right"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(lengths, n)[:, 0]},
         "axis of heads is missing"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(lengths, n).astype(int)},
         "bool, not int64"),
        (MASKED_ROWS | {"keep": lambda lengths, n: ~left(lengths, n)}, "yours is inverted"),
        (MASKED_ROWS | {"keep": lambda lengths, n: masks.causal(n) | is_token(lengths, n)[
            :, None, None]}, "Here both must allow it: use &"),
        (MASKED_ROWS | {"keep": lambda lengths, n: masks.causal(n) & is_token(lengths, n)[
            :, None, :, None]}, "masks rows, not columns"),
        (MASKED_ROWS | {"keep": lambda lengths, n: masks.causal(n) & (np.arange(n) >= np.asarray(
            lengths)[:, None])[:, None, None]}, "begin *earlier*"),
        (MASKED_ROWS | {"keep": lambda lengths, n: np.broadcast_to(is_token(lengths, n)[
            :, None, None], (len(lengths), 1, n, n))}, "later positions are not masked"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(lengths - 1, n)},
         "the first token of every sequence is masked"),
        (MASKED_ROWS | {"keep": lambda lengths, n: is_token(lengths, n)[
            :, None, None] & ~masks.causal(n) | is_token(lengths, n)[:, None, None] & np.eye(
            n, dtype=bool)}, "the triangle is transposed"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(lengths, n) | np.eye(n, dtype=bool)},
         "with length 4 of 6, position 0 may not attend to position 0"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(n, lengths)}, "raises"),
        (left, "with the keys")]}
