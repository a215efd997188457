"""How a program is called, as data: what its arguments get, in which axes, and with which mask.

The generators here make the plans, ``trial`` tries and scores them, and ``call`` carries one out.
A new layout is a string in a table of this file, and a new word one in ``names``.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from . import names

# The axes of the doctor's own q, of its x, and of its mask.
KERNEL, LAYER, FULL = "b h i d", "b i d", "b h i j"
# The axes in which programs take q or x, and how that is said; the likeliest first. Letters that
# are joined are one axis, "1" is an axis of length 1, and what is missing is called piece by piece.
AXES = {KERNEL: {"b h i d": ", with q (b, h, i, d)", "bh i d": ", with q (b, i, d)",
                 "i d": ", with q (i, d)", "b i h d": ", with q (b, i, h, d)"},
        LAYER: {"b i d": "", "i b d": " with the sequence first, x (i, b, d)",
                "b d i 1": " with x as an image (b, d, i, 1)",
                "b d i": " with x as channels first (b, d, i)",
                "b i 1 d": " with x as an image (b, i, 1, d)",
                "i d": " one example at a time, (i, d)"}}
# The axes of a mask by those of q, the whole one first, and for layers.
MASKS = {"b h i d": ("b h i j", "b i j", "i j", "b j"), "bh i d": ("bh i j", "i j"),
         "i d": ("i j",), "b i h d": ("b h i j", "b i j", "i j", "b j")}
OF_LAYERS = ("b 1 i j", "b i j", "b 1 1 j", "b 1 j", "b j", "i j", "bh i j", "i j b", "i j 1")
ANGLES = ("i d", "1 i d", "1 1 i d", "1 i 1 d")     # the axes of a table of angles, for RoPE
TABLES = ("halves", "pairs", "position 0")          # how it is repeated, if it is as wide as a head


class Kind(NamedTuple):
    """What a mask holds: ``made(keep)`` turns bools, True = may attend, into it; or it counts."""

    words: str
    made: Callable | None = None


ATTENDING = (Kind("True = may attend", lambda keep: keep),
             Kind("1 = may attend", lambda keep: keep.astype("int64")),
             Kind("1 = may attend", lambda keep: keep.astype("float64")))
MASKING = (Kind("True = masked", lambda keep: ~keep),
           Kind("1 = masked", lambda keep: (~keep).astype("float64")))
KINDS = (*ATTENDING, *MASKING,           # in this order: the first that masks is taken
         Kind("added to the scores, 0 = may attend and −∞ = masked",
              lambda keep: np.where(keep, 0.0, -np.inf)))
LENGTHS = {KERNEL: Kind("the number of real keys"), LAYER: Kind("the number of real tokens")}


class Mask(NamedTuple):
    """A meaning of a mask: its axes, such as "b 1 i j", and what it holds.

    ``said``: whether the axes are worth saying.
    """

    axes: str
    kind: Kind
    said: bool = True

    def made(self, keep):
        """Return what a program gets for a mask (b, h, i, j) of bools; all is NumPy."""
        if not self.kind.made:
            return arranged(keep[:, :, 0].sum(-1), "b h", self.axes)
        return self.kind.made(arranged(keep, FULL, self.axes))

    def words(self):
        """Return its meaning in words."""
        axes = self.axes.split()
        comma = "," if len(axes) == 1 else ""
        return f"({', '.join(axes)}{comma}), {self.kind.words}" if self.said else self.kind.words


class Angles(NamedTuple):
    """A table of angles for RoPE: its axes, one of ANGLES, whether it is as wide as a head, TABLES.

    A table that is not as wide has half of the columns.
    """

    axes: str
    whole: bool
    table: str = TABLES[0]


ASSUMED = " (assumed: under no meaning did the mask hide its keys; ask again after the repair)"


@dataclass(frozen=True)
class CallPlan:
    """How a program is called. All that the doctor assumes of a call is here.

    ``roles``: ((argument, role), …), the arguments that get something, and what: see
    ``names.ROLES``. ``axes`` of q or x, of AXES[base]. ``masked``: the argument that gets the mask.
    ``sure``: whether the mask was seen to mask. ``always``: whether a mask is passed where nothing
    is masked. ``square``: whether there are as many keys as queries. ``flags``: ((argument, value),
    …). ``causal``: whether the program then hides later tokens. ``switch``: the mask only turns
    that on, whatever it holds. ``replaced``: it takes the place of a causal one.
    """

    base: str
    roles: tuple
    axes: str
    angles: Angles | None = None
    masked: str = ""
    mask: Mask | None = None
    sure: bool = True
    always: bool = False
    square: bool = False
    flags: tuple = ()
    causal: bool = False
    switch: bool = False
    replaced: bool = False

    @property
    def alone(self):
        """Whether memory is always x."""
        return not {"k", "v", "memory", "[q, k, v]", "[x, memory]"} & {
            role for _, role in self.roles}

    @property
    def turned(self):
        """The arguments that get a table of angles."""
        return [name for name, role in self.roles
                if role == "turn" and not names.of_positions(name)]

    def sides(self, x, memory):
        """Return what a layer gets for q, k and v."""
        return (x, x, x) if self.alone else (x, memory, memory)

    @property
    def pieces(self):
        """The axes, of base, along which the program is called piece by piece."""
        one_mask = self.base == KERNEL and self.mask and "b" not in self.mask.axes
        return [axis for axis in self.base.split()[:-2]
                if axis not in self.axes or (axis == "b" and one_mask)]

    @property
    def masks(self):
        """Which masks it takes, as the option of ``examine``."""
        if not self.mask or self.switch:
            return "none"
        kernel, axes = self.base == KERNEL, set(self.mask.axes)
        if "i" not in axes:
            return "lengths" if kernel and not self.mask.kind.made else "padding"
        if "h" in axes or (kernel and not self.mask.said):
            return "any"
        return "heads alike" if kernel or "b" in axes or "b" in self.pieces else "one for all"

    def said(self):
        """Return the call in words."""
        masked = ((self.masked, "mask"),) if self.mask else ()
        how = ", ".join(name if name == role else f"{name}={names.said(name, role)}"
                        for name, role in self.roles + masked + self.flags)
        text = f"called as ({how}){AXES[self.base][self.axes]}"
        if self.switch:
            return text
        text += ", causal by its own mask" * self.causal
        if self.mask:
            text += f"; {self.masked}: {self.mask.words()}{'' if self.sure else ASSUMED}"
        return text


def arranged(array, base, axes):
    """Return an array (b, …), with axes ``base``, in the axes of a program, such as "bh i d"."""
    held, letters = base.split(), [axis for axis in axes if axis not in " 1"]
    size = dict(zip(held, array.shape, strict=True))
    # Of an axis that is missing, the first element is taken.
    array = array[tuple(slice(None) if axis in letters else 0 for axis in held)]
    kept = [axis for axis in held if axis in letters]
    array = array.transpose([kept.index(letter) for letter in letters])
    shape = [math.prod(size.get(letter, 1) for letter in word) for word in axes.split()]
    return np.ascontiguousarray(array).reshape(shape)


def back(array, base, axes, size):
    """Return an output with the axes of a program in the axes ``base``: ``arranged``, undone.

    ``size``: {axis: length} of all axes but the last of base, which may have any length.
    """
    letters = [axis for axis in axes if axis not in " 1"]
    held = [axis for axis in base.split() if axis in letters]
    array = array.reshape([size.get(letter, -1) for letter in letters])
    array = array.transpose([letters.index(axis) for axis in held])
    return array.reshape([size.get(axis, -1) for axis in base.split()])


def calls(reading, base):
    """Yield the CallPlans of a Reading, the likeliest first.

    A mask is passed only if it is needed; it then masks nothing, in some way.
    """
    tables = [Angles(axes, whole) for whole in (True, False) for axes in ANGLES]
    turned = any(role == "turn" for _, role in reading.roles)
    for axes, angles, square in itertools.product(
            AXES[base], tables if turned else [None], (False, True)):
        plan = CallPlan(base, reading.roles, axes, angles, reading.needed, square=square)
        if plan.alone and not square:
            continue
        if reading.needed:
            yield from (replace(plan, mask=mask, always=True)
                        for mask in masks(plan, dict(reading.masks)[reading.needed]))
        else:
            yield plan


def masks(plan, role):
    """Yield the meanings that a mask may have where a program is called by this plan."""
    kernel = plan.base == KERNEL
    axes = MASKS[plan.axes] if kernel else OF_LAYERS
    if role == "lengths":
        yield Mask("bh" if plan.axes == "bh i d" else "b", LENGTHS[plan.base],
                   said="bh" not in plan.axes)
        return
    if role == "padding":
        axes = sorted(axes, key=lambda one: "i" in one)
    kinds = ATTENDING if role == "keep" else KINDS
    for one, kind in itertools.product(axes, kinds):
        yield Mask(one, kind, said=not (kernel and one == axes[0]))
