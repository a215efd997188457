"""The exercises of the chapter on transpose_qkv."""

import numpy as np

from utils import checks, sizes
from utils.exercises import _transpose_qkv_mutants as mutants
from utils.exercises._check import Check, Exercise, not_attempted
from utils.exercises._judges import incomplete, join_messages, parts, prediction, wrong_keys
from utils.frameworks import tensorflow

HEADS = sizes.HEADS
TORN = "The transpose is missing, so a row mixes numbers of several tokens."


def _eleventh(given):
    if not isinstance(given, dict) or set(given) != {"changes", "test"}:
        return wrong_keys(("changes", "test"))
    changes, test = given["changes"], given["test"]
    if not_attempted(changes):
        return "Still open: changes."
    if not isinstance(changes, dict):
        return "changes must be a dict: {old text: new text}, from the source of tf_attention."
    absent = [old for old in changes if old not in mutants.source()]
    if absent:
        return (f"{absent[0]!r} is not in inspect.getsource(tf_attention), character by character. "
                "(There, lines may be longer than on this page.)")
    mutant = mutants.mutant(changes)
    caught = [name for name, one in mutants.six_tests().items() if mutants.catches(one, mutant)]
    if caught:
        return (f"These of the six tests catch it: {'; '.join(caught)}. All six call the layer in "
                "the same way: what could a user do differently?")
    if not_attempted(test):
        return "All six tests miss it. Still open: the test that catches it."
    problem = _new_test(test, mutant)
    return f"All six tests miss it. {problem}" if problem else ""


def _new_test(test, mutant):
    """Return what is wrong with a test that should catch a mutant, and nothing else."""
    for name, changes in (("the right program", {}), ("the right program, with tf.matmul for @",
                                                      mutants.EQUIVALENT)):
        results = [test(mutants.mutant(changes)) for _ in range(2)]
        if results[0] is None:
            return "But your test returns None: it must return True if the layer is right."
        if not all(results):
            return f"But your test is a false alarm: {name} fails it."
    if mutants.catches(test, mutant):
        return ""
    return ("Your test misses it, too. Can you call the layer in a way in which the changed line "
            "matters, or does it never matter?")


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


KEYS = ("x", "memory", "valid_lens", "num_hiddens", "num_heads")
BEST = 8  # 2 × 2 × 1 each: with less, a mutant is the same program
CAUSES = {
    "no scale": "How many dimensions has a head, and to how many keys may a query attend? A factor "
                "in the scores must be able to change the weights.",
    "no mask": "Is any key masked for any query?",
    "tile for repeat": "Compare 7 7 7 3 3 3 with 7 3 7 3 7 3: when are two such lists equal?",
    "no W_q": "Do the weights depend on the query at all?"}
TRANSPOSED = "When are (b, h, i, d) and (b, i, h, d) in memory in the same order?"


def _smallest_input(given):
    """Judge an input: the right program must be right on it, and every mutant wrong."""
    problem = incomplete(given, KEYS)
    if problem:
        return problem
    x, memory = (np.asarray(given[side], dtype=float) for side in KEYS[:2])
    lens, width, heads = np.asarray(given["valid_lens"]), *map(int, (given[k] for k in KEYS[3:]))
    problem = _wrong_shapes(x, memory, lens)
    if problem:
        return problem
    checks.divisible(width, heads)
    if not mutants.test_on(x, memory, lens, width, heads)(mutants.mutant({})):
        return "Even the right program is wrong on it. Are its numbers huge?"
    missed = mutants.missed(x, memory, lens, width, heads)
    if missed:
        return _reasons(missed, x, memory, lens, width, heads)
    if x.size + memory.size == BEST:
        return ""
    product, other = (" · ".join(map(str, side.shape)) for side in (x, memory))
    return (f"It catches all ten, with {product} + {other} = {x.size + memory.size} numbers. The "
            f"best is {BEST}. Which size could be smaller, and which mutant needs it as it is?")


def _wrong_shapes(x, memory, lens):
    if x.ndim != 3 or memory.ndim != 3 or x.shape[::2] != memory.shape[::2]:
        return ("x must be (b, i, d_in) and memory (b, j, d_in), three axes; yours are "
                f"{x.shape} and {memory.shape}.")
    if not (np.isfinite(x).all() and np.isfinite(memory).all()):
        return "The right program fails on NaN and infinity, too: use finite numbers."
    if 0 in x.shape + memory.shape:
        return "If an axis has size 0, there are no numbers to compare."
    if lens.shape != x.shape[:1]:
        return (f"valid_lens must be one length for each example, {x.shape[:1]}; yours is "
                f"{lens.shape}.")
    if not lens.any():
        return "All rows are fully masked, so most of the program makes no difference."
    return ""


def _reasons(missed, x, memory, *rest):
    """Return why mutants are missed: because of sizes and lengths, or because of the numbers."""
    rng = np.random.default_rng(8)
    x, memory = (rng.standard_normal(side.shape) for side in (x, memory))
    by_size = mutants.missed(x, memory, *rest, names=missed)
    by_numbers = [name for name in missed if name not in by_size]
    lines = [f"It catches {len(mutants.CHANGES) - len(missed)} of 10."]
    if by_numbers:
        lines.append(f"Missed: {', '.join(by_numbers)}. Random numbers of these sizes would catch "
                     "them. Are two of your tokens equal, or multiples of each other?")
    causes = {}
    for name in by_size:
        causes.setdefault(CAUSES.get(name, TRANSPOSED), []).append(name)
    lines += [f"Missed: {', '.join(names)}. {cause}" for cause, names in causes.items()]
    return join_messages(lines)


check = Check({
    "eleventh": Exercise(_eleventh, (
        "All six tests call the layer in one way. Read the arguments of `call`: which of them are "
        "always the same, or left out?",
        "What happens in training that does not happen in the tests? What is the output for a "
        "length of 0? And which two of the three inputs are the same array?",
        "Take the line with dropout: which change to it does a test miss that never trains?"),
        "A test sees only what it tries. None of the six tries length 0, training, or keys that "
        "differ from the values."),
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
    "smallest_input": Exercise(_smallest_input, (
        "Begin with an input that catches all ten, that of the test *unequal*, and make one size "
        "after the other smaller until a mutant is missed.",
        "The parameters are not counted, so num_hiddens and num_heads cost nothing: which values "
        "do they need to catch the missing scale, and tile for repeat?",
        "If d_in is not num_hiddens, a layer without W_q raises an error. How small may d_in be "
        "then? And what needs a second query, a second key, a second example?"),
        "Eight numbers are enough: two examples for tile, two queries for the transpose out, two "
        "keys for the scale, and one dimension, since the matrices turn it into many."),
})
