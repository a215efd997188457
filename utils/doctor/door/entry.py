"""What comes in by the door: a program in the doctor's form, and what was assumed of it."""

import importlib
import itertools
from typing import NamedTuple

import numpy as np

from ... import checks, frameworks


class Entry(NamedTuple):
    """A program in the doctor's form, its level, options and Form, and what was assumed of it.

    ``form``: what no option says of a layer, as replacements in ``levels.layer_cases.Form``.
    """

    program: object
    level: str
    options: dict
    said: str
    form: dict = {}  # noqa: RUF012
    others: tuple = ()  # further Entries, where it is not certain what a mask means
    last: bool = False  # whether it counts only if no other explains the program
    sure: bool = True   # whether its mask masks
    notes: tuple = ()   # sentences: what was assumed or not examined
    leak: str = ""      # a norm through which outputs depend on later tokens
    raises: str = ""    # the error that the program raises with any mask
    unasked: str = ""   # what of the attention was not examined


class Mask(NamedTuple):
    """A meaning of a mask: ``make(keep)`` turns (b, h, i, j) bools into what a program takes."""

    words: str
    make: object
    masks: str      # the option of ``examine_layer``


# Notes.
REPLACED = ("Without a mask it is causal, and a mask that is passed takes the place of the causal "
            "one; it was always passed.")
NOT_PASSED = "It was called without {}, so what that does is not examined."

# What a mask holds. All is NumPy, and made into tensors later.
KINDS = (("True = may attend", lambda keep: keep),
         ("1 = may attend", lambda keep: keep.astype("int64")),
         ("1 = may attend", lambda keep: keep.astype("float64")),
         ("True = masked", lambda keep: ~keep),
         ("1 = masked", lambda keep: (~keep).astype("float64")),
         ("added to the scores, 0 = may attend and −∞ = masked",
          lambda keep: np.where(keep, 0.0, -np.inf)))
SHAPES = (("(b, 1, i, j)", lambda keep: keep[:, :1], "heads alike"),
          ("(b, i, j)", lambda keep: keep[:, 0], "heads alike"),
          ("(b, 1, 1, j)", lambda keep: keep[:, :1, :1], "padding"),
          ("(b, 1, j)", lambda keep: keep[:, 0, :1], "padding"),
          ("(b, j)", lambda keep: keep[:, 0, 0], "padding"),
          ("(i, j)", lambda keep: keep[0, 0], "one for all"))
LENGTHS = Mask("(b,), the number of real tokens", lambda keep: keep[:, 0, 0].sum(-1), "padding")


def ways(role):
    """Yield the Masks that an argument with this role may take, the likeliest first."""
    if role == "lengths":
        yield LENGTHS
        return
    shapes = sorted(SHAPES, key=lambda one: one[2] != "padding") if role == "padding" else SHAPES
    for (axes, cut, masks), (words, make) in itertools.product(shapes, KINDS):
        yield Mask(f"{axes}, {words}", lambda keep, cut=cut, make=make: make(cut(keep)), masks)


def like(array, x):
    """Return a NumPy array in the framework of x; floating-point numbers get the dtype of x."""
    if array is None:
        return None
    if array.dtype.kind == "f":
        array = array.astype(checks.dtype_name(x).replace("bfloat16", "float32"))
    if isinstance(x, np.ndarray):
        return array
    if hasattr(x, "new_tensor"):
        return importlib.import_module("torch").from_numpy(np.array(array))
    return frameworks.tensorflow().constant(array)


def full(keep, *shape):
    """Return a mask as NumPy bools of this whole shape; None masks nothing."""
    return np.array(np.broadcast_to(True if keep is None else checks.to_numpy(keep), shape))
