"""The exercises of the chapter on transpose_qkv."""

import numpy as np

from utils import checks, sizes
from utils.exercises import _layer_mutants as layers, _smallest_input
from utils.exercises._check import Check, Exercise, untouched
from utils.exercises._parts import parts, value
from utils.frameworks import tensorflow

HEADS = sizes.HEADS


def _eleventh(given):
    if not isinstance(given, dict) or set(given) != {"changes", "test"}:
        return "The answer is a dict with the keys 'changes', 'test'."
    changes, test = given["changes"], given["test"]
    if untouched(changes):
        return "Still open: changes."
    if not isinstance(changes, dict):
        return "changes is a dict: {old text: new text}, from the source of tf_attention."
    absent = [old for old in changes if old not in layers.source()]
    if absent:
        return (f"{absent[0]!r} does not stand in inspect.getsource(tf_attention), letter by "
                "letter. (There, lines may be longer than on this page.)")
    made = layers.mutant(changes)
    seen = [name for name, one in layers.six_tests().items() if layers.notices(one, made)]
    if seen:
        return (f"Noticed by the test{'s' * (len(seen) > 1)} {'; '.join(seen)}. What do all six "
                "have in common, that a user might do otherwise?")
    if untouched(test):
        return "None of the six notices. Still open: the test that does."
    return _new_test(test, made)


def _new_test(test, made):
    """Return what is wrong with a test that is to notice a mutant, and nothing else."""
    for name, changes in (("the right program", {}), ("the right program, with tf.matmul for @",
                                                      layers.HARMLESS)):
        said = [test(layers.mutant(changes)) for _ in range(2)]
        if said[0] is None:
            return "None of the six notices. Your test returns None: True is right, False wrong."
        if not all(said):
            return f"None of the six notices. But your test is a false alarm: {name} fails it."
    if layers.notices(test, made):
        return ""
    return ("None of the six notices, and your test does not, either. Call the layer in the way "
            "that makes the changed line matter, or does it matter never?")


def _folds(got, X):
    """Return which fold of X (b, i, h * d) this is, "" for heads first."""
    b, n, _ = X.shape
    split = X.reshape(b, n, HEADS, -1)
    d = split.shape[-1]
    if got.shape != (HEADS * b, n, d):
        return f"It makes {got.shape} of {X.shape}, not {(HEADS * b, n, d)}."
    dealt = X.reshape(b, n, d, HEADS).transpose(3, 0, 1, 2)
    for fold, why in (
            (split.transpose(2, 0, 1, 3), ""),
            (split.transpose(0, 2, 1, 3), "Row 1 is head 1 of example 0, as on this page: examples "
                                          "first."),
            (X, "Nothing is transposed: the words are torn."),
            (dealt, "Features are dealt out like cards: head 0 has 0, 3, 6, 9.")):
        if np.array_equal(got, fold.reshape(got.shape)):
            return why
    return "Let every number be its address, as above, and ask the rows where they come from."


def _fold(fold):
    X = np.random.default_rng(0).standard_normal((2, 5, 12))
    return _folds(checks.to_numpy(fold(tensorflow().constant(X), HEADS)), X)


def _unfold(unfold):
    X = np.random.default_rng(1).standard_normal((2, 5, 12))     # (b, i, e)
    folded = X.reshape(2, 5, HEADS, 4).transpose(2, 0, 1, 3)     # (h, b, i, d)
    got = checks.to_numpy(unfold(tensorflow().constant(folded.reshape(6, 5, 4)), HEADS))
    if got.shape != X.shape:
        return f"It makes {got.shape} of (6, 5, 4), not {X.shape}."
    examples_first = folded.reshape(2, HEADS, 5, 4).transpose(0, 2, 1, 3)
    for wrong, why in ((X, ""), (examples_first, "It takes row 1 for head 1 of example 0: examples "
                                                 "first, as on this page."),
                       (folded, "Nothing is transposed: the words are torn."),
                       (folded.transpose(1, 0, 2, 3), "The heads are not next to their features "
                                                      "before the last reshape.")):
        if np.array_equal(got, wrong.reshape(X.shape)):
            return why
    return "What it makes of a folded tensor is not what was folded."


def _copy(given):
    name = str(getattr(given, "__name__", given)).rpartition(".")[2]
    return value("tile", "Write the six rows below each other, and beside each the length of its "
                         "example.")(name)


check = Check({
    "eleventh": Exercise(_eleventh, (
        "All six tests call the layer in one way. Read the arguments of `call`: which of them are "
        "always the same, or left out?",
        "What happens in training that does not happen in the tests? What does a length of 0 get? "
        "And which two of the three inputs are the same array?",
        "Take the line of dropout: which change to it does a test not see that never trains?"),
        "A test sees what it asks. None of the six asks for length 0, for training, or for keys "
        "that are not the values."),
    "heads_first": Exercise(parts({
        "fold": _fold, "unfold": _unfold,
        "copy": _copy,
        "wrong rows": value({1, 4}, {
            frozenset({0, 1, 2, 3, 4, 5}): "Some rows get their own length by luck.",
            frozenset({2, 3}): "Those are the two in the middle: 7 and 3 by either copy.",
            frozenset({1, 2, 3, 4}): "Two of these get the right length from either copy.",
            None: "repeat gives 7 7 7 3 3 3. Which example does each of the six rows belong "
                  "to?"})}), (
        "In `perm`, the first number names the axis that changes slowest. Which of the four is it "
        "to be now?",
        "To unfold, undo the steps from the last to the first: the first axis is (h, b) now, so "
        "reshape to (num_heads, -1, …), and then transpose to (b, i, h, d).",
        "Row h * batch + b belongs to example b. The six rows belong to examples 0 1 0 1 0 1."),
        "Fold and copy must agree, and a look at the first and last row tells nothing: rows 1 and "
        "4 are wrong both times, but they are other heads of other examples."),
    "smallest_input": Exercise(_smallest_input.judge, (
        "Begin with an input that kills all ten, that of the test *unequal*, and make one size "
        "after the other smaller until a mutant survives.",
        "The weights are not counted, so num_hiddens and num_heads cost nothing: what do they have "
        "to be for the scale, and for the tile, to be seen?",
        "If d_in is not num_hiddens, a layer without W_q cannot even run. How small may d_in be "
        "then? And what needs a second query, a second key, a second example?"),
        "Eight numbers: two examples for the tile, two queries for the transpose out, two keys for "
        "the scale, and one feature, since the weights make many of it."),
})
