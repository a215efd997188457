"""Judge of inputs that are to show all ten mutants, in chapter `transpose_qkv`."""

import numpy as np

from utils import checks, sizes
from utils.exercises import _layer_mutants as layers
from utils.exercises._answers import listed
from utils.exercises._check import untouched

KEYS = ("x", "memory", "valid_lens", "num_hiddens", "num_heads")
BEST = 8  # 2 × 2 × 1 each: below that, a mutant is the same program
CAUSES = {
    "no scale": "How many features has a head, and how many keys have a say? A factor in the "
                "scores must be able to change the weights.",
    "no mask": "Is any key forbidden to anybody?",
    "tile for repeat": "7 7 7 3 3 3 against 7 3 7 3 7 3: when are two such lists the same?",
    "no W_q": "Do the weights depend on the query at all?"}
TRANSPOSED = "When do (b, h, i, d) and (b, i, h, d) lie in memory in the same order?"


def judge(given):
    """Judge an input: is the right program right on it, and does every mutant differ?"""
    if not isinstance(given, dict) or set(given) != set(KEYS):
        return f"The answer is a dict with the keys {', '.join(map(repr, KEYS))}."
    open_ = [key for key in KEYS if untouched(given[key])]
    if open_:
        return f"Still open: {', '.join(open_)}."
    x, memory = (np.asarray(given[side], dtype=float) for side in KEYS[:2])
    lens, width, heads = np.asarray(given["valid_lens"]), *map(int, (given[k] for k in KEYS[3:]))
    problem = _shapes(x, memory, lens)
    if problem:
        return problem
    checks.divisible(width, heads)
    if not _test(x, memory, lens, width, heads)(layers.mutant({})):
        return "The right program itself is not right on it. Are its numbers huge?"
    alive = _alive(x, memory, lens, width, heads)
    if alive:
        return _reasons(alive, _on_random_numbers(alive, x, memory, lens, width, heads))
    count = x.size + memory.size
    return "" if count == BEST else (
        f"All ten are noticed, with {_product(x)} + {_product(memory)} = {count} numbers. The best "
        f"is {BEST}. Which size could be smaller, and which mutant needs it as it is?")


def _product(side):
    return " · ".join(map(str, side.shape))


def _shapes(x, memory, lens):
    if x.ndim != 3 or memory.ndim != 3 or x.shape[::2] != memory.shape[::2]:
        return ("x is (b, i, d_in) and memory (b, j, d_in), three axes; yours are "
                f"{x.shape} and {memory.shape}.")
    if not (np.isfinite(x).all() and np.isfinite(memory).all()):
        return "NaN and infinity break the right program, too: finite numbers, please."
    if 0 in x.shape + memory.shape:
        return "An axis of size 0 leaves no numbers to be wrong."
    if lens.shape != x.shape[:1]:
        return f"valid_lens is one length for each example, {x.shape[:1]}; yours is {lens.shape}."
    if not lens.any():
        return "No query may attend to anything, and most of the program has nothing to do."
    return ""


def _test(x, memory, lens, width, heads):
    W = sizes.weights(7, d_in=x.shape[2], d_model=width, d_out=width)
    return lambda make_layer: layers.right(make_layer, x, memory, W, heads, lens)


def _alive(*given, names=tuple(layers.CHANGES)):
    test = _test(*given)
    return [name for name in names
            if not layers.notices(test, layers.mutant(layers.CHANGES[name]))]


def _on_random_numbers(alive, x, memory, *rest):
    """Return those that live on random numbers of the same sizes, too."""
    rng = np.random.default_rng(8)
    return _alive(*(rng.standard_normal(side.shape) for side in (x, memory)), *rest, names=alive)


def _reasons(alive, by_size):
    """Return why mutants live: for want of size or lengths, or because the numbers are alike."""
    dull = [name for name in alive if name not in by_size]
    lines = [f"{len(layers.CHANGES) - len(alive)} of 10 are noticed."]
    if dull:
        lines.append(f"Alive: {', '.join(dull)}. Random numbers of these sizes would notice. Are "
                     "two words of yours alike, or in proportion?")
    causes = {}
    for name in by_size:
        causes.setdefault(CAUSES.get(name, TRANSPOSED), []).append(name)
    lines += [f"Alive: {', '.join(names)}. {cause}" for cause, names in causes.items()]
    return listed(lines)
