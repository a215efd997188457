"""The exercises of the chapter on transpose_qkv."""

import numpy as np

from .. import checks, sizes
from ..frameworks import tensorflow
from . import _transpose_qkv_any
from ._check import Check, Exercise
from ._judges import parts, prediction

HEADS = sizes.HEADS
TORN = "The transpose is missing, so a row mixes numbers of several tokens."


def _fold(fold):
    X = np.random.default_rng(0).standard_normal((2, 5, 12))     # (b, i, e)
    got = checks.to_numpy(fold(tensorflow().constant(X), HEADS))
    if got.shape != (6, 5, 4):
        return f"It returns {got.shape} for {X.shape}, not (6, 5, 4)."
    split = X.reshape(2, 5, HEADS, 4)
    for known, message in (
            (split.transpose(2, 0, 1, 3), ""),
            (split.transpose(0, 2, 1, 3), "Row 1 is head 1 of example 0, as on this page, so "
                                          "examples come first."),
            (X, TORN),
            (X.reshape(2, 5, 4, HEADS).transpose(3, 0, 1, 2),
             "Head 0 gets the dimensions 0, 3, 6, 9, but a head's dimensions are neighbours.")):
        if np.array_equal(got, known.reshape(got.shape)):
            return message
    return "Use numbers that are their own address, as above, and look where each row comes from."


def _unfold(unfold):
    X = np.random.default_rng(1).standard_normal((2, 5, 12))     # (b, i, e)
    folded = X.reshape(2, 5, HEADS, 4).transpose(2, 0, 1, 3)     # (h, b, i, d)
    got = checks.to_numpy(unfold(tensorflow().constant(folded.reshape(6, 5, 4)), HEADS))
    if got.shape != X.shape:
        return f"It returns {got.shape} for (6, 5, 4), not {X.shape}."
    for known, message in (
            (X, ""),
            (folded.reshape(2, HEADS, 5, 4).transpose(0, 2, 1, 3),
             "It takes row 1 for head 1 of example 0: examples come first, as on this page."),
            (folded, TORN),
            (folded.transpose(1, 0, 2, 3),
             "Before the last reshape, the heads are not next to their dimensions.")):
        if np.array_equal(got, known.reshape(X.shape)):
            return message
    return "Unfolding a folded tensor does not return the original."


def _copy(given):
    name = str(getattr(given, "__name__", given)).rpartition(".")[2]
    return prediction("tile", "Write the six rows below each other, and beside each the length of "
                              "its example.")(name)


check = Check({
    "any_attention": Exercise(_transpose_qkv_any.judge, (
        "Fold q, k and v alike: (b, i, e) -> (b, i, h, d) -> (b, h, i, d) -> (b * h, i, d). The "
        "number of queries and that of keys may differ, and so may the sizes of a head's keys and "
        "values.",
        "The mask has its four axes already, but some of them have size 1. What must happen to it "
        "before b and h can be joined? np.broadcast_to helps.",
        "After f, take the same steps backwards. Row b * num_heads + h is head h of example b, for "
        "the context and for the weights."),
        "Your function made three attentions multi-head that know nothing of heads, with masks of "
        "every kind, and you get the weights of each head."),
    "heads_first": Exercise(parts({
        "fold": _fold, "unfold": _unfold, "copy": _copy,
        "wrong rows": prediction({1, 4}, {
            frozenset({0, 1, 2, 3, 4, 5}): "Some rows get their own length by chance.",
            frozenset({2, 3}): "Those are the two in the middle: both copies give them 7 and 3.",
            frozenset({1, 2, 3, 4}): "Two of these get the right length from both copies.",
            None: "repeat gives 7 7 7 3 3 3. To which example does each of the six rows "
                  "belong?"})}), (
        "In `perm`, the first number names the axis that changes slowest. Which of the four should "
        "it be now?",
        "To unfold, undo the steps from the last to the first: the first axis is (h, b) now, so "
        "reshape to (num_heads, -1, …), and then transpose to (b, i, h, d).",
        "Row h * batch + b belongs to example b. The six rows belong to examples 0 1 0 1 0 1."),
        "Fold and copy must agree. The first and the last row are right either way; rows 1 and 4 "
        "get the wrong length."),
})
