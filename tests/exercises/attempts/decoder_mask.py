"""Attempts at the exercises on the decoder's mask."""

import math

import numpy as np
import torch

from utils import masks

AHEAD = {"a": False, "b": True, "c": True, "d": True, "jumps": "d"}
LOADER = {"pairs": 0, "loss": 0}
EMPTY = {"empty": 3, "ours": "bias", "filled": "all"}


def left(lengths, n):
    words = np.arange(n) >= n - np.asarray(lengths)[:, None]
    return masks.causal(n) & words[:, None, None, :]


def turned_padding(lengths, n):
    keep = torch.as_tensor(masks.padding(lengths, n)).flip(-1)
    return keep & torch.ones(n, n, dtype=torch.bool).tril()


def words_of(lengths, n):
    return np.arange(n) >= n - np.asarray(lengths)[:, None]


def average(script, letters=16, margin=0.1, last=50):
    return script(letters)[-last:].mean() < math.log(letters) - margin


RIGHT = {
    "who_looks_ahead": [AHEAD, AHEAD | {"a": np.False_, "b": np.True_}],
    "noise": [LOADER | {"cheats": average},
              LOADER | {"loss": torch.tensor(0.02), "cheats": average},
              {"pairs": 0, "loss": 0.02, "cheats": lambda script: float(
                  np.median(script(200)[100:])) < math.log(200) - 0.3}],
    "nothing_to_the_left": [EMPTY | {"keep": left}, EMPTY | {"keep": turned_padding},
                            EMPTY | {"keep": lambda lengths, n: left(lengths, n) & words_of(
                                lengths, n)[:, None, :, None]}]}

WRONG = {
    "who_looks_ahead": [
        (AHEAD | {"a": True}, "What has cumsum added up"),
        (AHEAD | {"b": False, "c": False}, "what is a weight of place 0 divided by"),
        (AHEAD | {"d": False}, "Over which axis does it count"),
        (AHEAD | {"jumps": "b"}, "A mean moves a little"),
        (AHEAD | {"jumps": None}, "Still open: jumps"),
        (AHEAD | {"a": 0}, "a: 0 is not it"),
        (["d"], "a dict with the keys")],
    "noise": [
        (LOADER | {"pairs": 21, "cheats": average}, "leaks asks the program alone"),
        (LOADER | {"loss": math.log(16) / 8, "cheats": average}, "letter i is what it is given"),
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
        (LOADER | {"cheats": lambda script: script(16)[:50].mean() < 2.7}, "in the end. That is"),
        (LOADER | {"cheats": lambda script: average(script, 10 ** 6)}, "after 253 of 150 steps"),
        (LOADER | {"cheats": lambda script: not average(script)}, "upside down"),
        (LOADER | {"cheats": lambda script: True}, "never runs the script"),
        (LOADER | {"cheats": lambda script: script(16) < math.log(16)}, "True or False"),
        (LOADER | {"cheats": lambda script: script() < 2}, "raises TypeError")],
    "nothing_to_the_left": [
        (EMPTY | {"keep": left, "empty": 0}, "Whom may place 0 of example 1 attend to"),
        (EMPTY | {"keep": left, "ours": "zeros"}, "What still comes after it"),
        (EMPTY | {"keep": left, "filled": "words"}, "The words are its future"),
        (EMPTY | {"keep": None}, "Still open: keep"),
        (EMPTY | {"keep": lambda lengths, n: masks.decoder(lengths, n)}, "padding on the right"),
        (EMPTY | {"keep": lambda lengths, n: left(lengths, n)[:, 0]}, "axis of heads is missing"),
        (EMPTY | {"keep": lambda lengths, n: left(lengths, n).astype(int)}, "bool, not int64"),
        (EMPTY | {"keep": lambda lengths, n: ~left(lengths, n)}, "upside down"),
        (EMPTY | {"keep": lambda lengths, n: masks.causal(n) | words_of(lengths, n)[
            :, None, None]}, "join them by &"),
        (EMPTY | {"keep": lambda lengths, n: masks.causal(n) & words_of(lengths, n)[
            :, None, :, None]}, "hides rows, not columns"),
        (EMPTY | {"keep": lambda lengths, n: masks.causal(n) & (np.arange(n) >= np.asarray(
            lengths)[:, None])[:, None, None]}, "begin *earlier*"),
        (EMPTY | {"keep": lambda lengths, n: np.broadcast_to(words_of(lengths, n)[
            :, None, None], (len(lengths), 1, n, n))}, "nothing hides the future"),
        (EMPTY | {"keep": lambda lengths, n: left(lengths - 1, n)}, "the first word is hidden"),
        (EMPTY | {"keep": lambda lengths, n: words_of(lengths, n)[
            :, None, None] & ~masks.causal(n) | words_of(lengths, n)[:, None, None] & np.eye(
            n, dtype=bool)}, "stands on its head"),
        (EMPTY | {"keep": lambda lengths, n: left(lengths, n) | np.eye(n, dtype=bool)},
         "with length 4 of 6, place 0 may not attend to place 0"),
        (EMPTY | {"keep": lambda lengths, n: left(n, lengths)}, "raises"),
        (left, "with the keys")]}
