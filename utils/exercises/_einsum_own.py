"""The judge of a reader's own einsum, for the chapter on einsum."""

import dis
import inspect

import numpy as np

from ..checks import to_numpy
from ._judges import recognise

# Strings, and the sizes of their letters; all different, so that no axis can take another's place.
STRINGS = {"d,jd->j": "d2 j3", "d,jd->jd": "d2 j3", "d,jd->dj": "d2 j3", "d,d->": "d3",
           "d,js->j": "d2 j3 s4", "i,j->ji": "i2 j3", "ii,i->i": "i3", "ij,jk->": "i2 j3 k4",
           "bhid,bhjd->bhij": "b2 h3 i4 d5 j6", "bhij,bhjv->bhiv": "b2 h3 i4 j5 v6"}


def judge_own(mine):
    """Judge my_einsum(string, first, second)."""
    if _calls_a_library(mine):
        return "It calls einsum, or a product of arrays: write it with loops."
    rng = np.random.default_rng(0)
    for string, sizes in STRINGS.items():
        sizes = {word[0]: int(word[1:]) for word in sizes.split()}
        first, second = (rng.integers(1, 9, [sizes[letter] for letter in term]).astype(float)
                         for term in string.split("->")[0].split(","))
        message = _wrong_result(mine(string, first.copy(), second.copy()), string, first, second)
        if message:
            return f"{string}: {message}"
    return _accepts_two_sizes(mine)


def _calls_a_library(mine):
    """Return whether a program is a library's, names a product of arrays, or uses ``@``."""
    if not inspect.isfunction(mine):
        return callable(mine)
    names = {"einsum", "tensordot", "matmul", "dot", "outer", "inner"}
    return bool(names & set(mine.__code__.co_names)) or any(
        step.opname == "BINARY_OP" and step.argrepr.startswith("@")
        for step in dis.get_instructions(mine))


def _wrong_result(got, string, first, second):
    if got is None:
        return "it returns None: is the `return` missing?"
    got, right = to_numpy(got), np.einsum(string, first, second)
    known = recognise(got, _known_results(string, first, second))
    if known is not None:
        return known
    if got.shape != right.shape:
        return (f"it returns the shape {got.shape}, not {right.shape}. The letters after the arrow "
                "are the axes of the result, in this order (rule 3).")
    before, _, result = string.partition("->")
    first_term, second_term = before.split(",")
    if len(set(first_term)) < len(first_term):
        return ("a letter that stands twice in one term has the same value at both places, so only "
                "the diagonal counts (rule 1).")
    summed = sorted(set(before) - set(result) - {","})
    over = f"summed over {' and '.join(summed)}" if summed else "with no sum"
    return (f"the shape is right, and the numbers are wrong. Each element of the result is a "
            f"product {over}: which elements of the two arrays have the same letters?")


def _known_results(string, first, second):
    """Yield (result, message), the right one first."""
    before, _, result = string.partition("->")
    yield np.einsum(string, first, second), ""
    letters = "".join(dict.fromkeys(before.replace(",", "")))
    ordered = "".join(letter for letter in letters if letter in result)
    yield (np.einsum(f"{before}->{ordered}", first, second),
           "the axes are in the order in which the letters first occur. The order after the arrow "
           "counts (rule 3).")
    yield (np.einsum(f"{before}->{letters}", first, second),
           "no letter is summed over. Those that are missing after the arrow must be (rule 2).")
    missing = [letter for letter in letters if letter not in result]
    every = np.einsum(f"{before}->{result}{''.join(missing)}", first, second)
    yield (every[(..., *[-1] * len(missing))],
           "each element holds the last product alone: add each product to what is there "
           "(rule 2).")
    yield (every.mean(tuple(range(-len(missing), 0))) if missing else every,
           "this is the mean of the products, and einsum returns their sum (rule 2).")


def _accepts_two_sizes(mine):
    try:
        mine("d,jd->j", np.ones(2), np.ones((3, 4)))
    except ValueError:
        return ""
    except Exception as error:  # of the reader's code
        return (f"d,jd->j: if d has size 2 in one array and 4 in the other, it raises "
                f"{type(error).__name__} and not ValueError. Compare the sizes before the loop.")
    return ("d,jd->j: d has size 2 in one array and 4 in the other, and there is no error. A "
            "letter is one axis, so it has one size (rule 1).")
