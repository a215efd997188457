"""What comes in by the door: a program in the doctor's form, and what was assumed of it."""

from typing import NamedTuple

import numpy as np


class Mask(NamedTuple):
    """A meaning of a mask: ``make(keep)`` turns (b, 1, i, j) bools into what a program takes."""

    words: str
    make: object
    masks: str      # the option of ``examine_layer``


class Entry(NamedTuple):
    """A program in the doctor's form, the options of the examination, and what was assumed."""

    program: object
    options: dict
    said: str


def _added(keep):
    """Return a mask to be added to the scores, in the framework of a bool mask."""
    if isinstance(keep, np.ndarray):
        return np.where(keep, 0.0, -np.inf)
    import torch
    return torch.zeros(keep.shape, dtype=torch.get_default_dtype()).masked_fill(~keep, -torch.inf)


KINDS = (("True = may attend", lambda keep: keep), ("1 = may attend", lambda keep: keep * 1),
         ("True = masked", lambda keep: ~keep),
         ("added to the scores, 0 = may attend and −∞ = masked", _added))
