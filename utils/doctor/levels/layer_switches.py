"""The switches of a layer: its own faults and those of the kernel inside it."""

import itertools

from .._search import Switch
from ..faulty.layer import LayerFaults
from . import kernel_switches

HEADS = ((0, "first"), (-1, "last"))
WITHIN = (0, 2, 1)  # q, k and v are packed separately
LEAKS = {"on the queries": "the mask applies to queries instead of keys"}
LEAKS |= {name: f"the mask is used {name}"
          for one in ("first head", "last head", "first example", "last example")
          for name in (f"in the {one} only", f"not in the {one}")}
RIGHT, SOURCES = LayerFaults.sides, {"x": "x", "m": "memory"}
OTHERS = {"tiled over folded heads": "the mask is tiled, but the folded axis is (b, h)",
          "repeated over tiled heads": "the mask is repeated, but the folded axis is (h, b)",
          "of the first example": "all examples get the mask of the first example",
          "of the last example": "all examples get the mask of the last example",
          "of the example before": "each example gets the mask of the example before it",
          "of the example after": "each example gets the mask of the example after it"}
SIDES = {sides: ", ".join(f"{letter} is made from {SOURCES[side]}" for letter, side, right in zip(
    "qkv", sides, RIGHT, strict=True) if side != right)
    for sides in map("".join, itertools.product("xm", repeat=3)) if sides != RIGHT}


def switches(form, options):
    """Return the Switches that a layer of this form can show, those of its kernel last."""
    found = [Switch("merge without transpose", {"merge": False}),
             Switch("split and merge without transpose", {"torn": "qkv", "merge": False}),
             Switch("split without transpose", {"torn": "qkv"}),
             *_projections(form), *_orders(form)]
    if form.masks != "none":
        for fault, names in (("padding leak", LEAKS), ("other example's mask", OTHERS)):
            found += [Switch(fault, {"mask_fault": name}, detail) for name, detail in names.items()
                      if name != "on the queries" or form.square or form.self_attention]
    if form.square or form.self_attention:
        found.append(Switch("batch and sequence swapped", {"swapped": True}))
    if form.pre_norm:
        found.append(Switch("LayerNorm over time", {"norm": 1}))
    return found + kernel_switches.switches(form.kernel(), options)


def rare(form, one_head=False):
    """Return Switches of a layer that are in no homework, and those of the kernel inside."""
    found = [Switch("merge without transpose", {"merge": "stacked"},
                    "heads are stacked as (h, b, i, d) and read as (b, i, h·d)")]
    if not form.self_attention:
        found += [Switch("memory ignored" if sides[0] == "x" else "x and memory exchanged",
                         {"sides": sides}, detail) for sides, detail in SIDES.items()
                  if form.square or sides == "xxx"]
    if not (form.square or form.self_attention):  # there, it is "on the queries"
        found.append(kernel_switches.TRANSPOSED)
    return found + kernel_switches.rare(form.kernel().square, one_head)


def _projections(form):
    """Return the Switches of mistakes in the projections."""
    found = [Switch("missing bias", {"unbiased": letters},
                    f"those of {', '.join(letters)} are not (that of k changes no output)")
             for letters in _some("qvo")]
    if not form.one_of:
        found += [Switch("shared head", {"shared": (head, letters)},
                         f"all heads use {', '.join(letters)} of the {which} head")
                  for head, which in HEADS for letters in _some("qkv")]
    if form.kv > 1:
        found.append(Switch("tile for repeat", {"shared": (("tile", form.kv), form.one_of)}))
    if form.masks == "any" and not form.one_of:  # otherwise all heads have the same mask
        found += [Switch("shared head", {"shared": (head, "qkv mask")},
                         f"all heads use q, k, v and the mask of the {which} head")
                  for head, which in HEADS]
    if form.equal_widths and not form.wide:
        found += [Switch("transposed weight", {"transposed": letters},
                         f"x @ W.T is used for {', '.join(letters)}") for letters in _some("qkvo")]
        found += [Switch("input split before projection", {"input_split": blocks})
                  for blocks in ("own", "first", "rows")]
    if form.equal_widths and not (form.no_output or form.wide):
        found += [Switch("missing W_o", {"out": out}) for out in ("", "b_o")]
    return found


def _orders(form):
    """Return the Switches of how packed weights are read."""
    found = [Switch("packed order", {"order": "".join(order)}, f"read as [{' | '.join(order)}]")
             for order in itertools.permutations("qkv") if "".join(order) != "qkv"]
    found += [Switch("packed order", {"order": "".join(order)},
                     f"q, k and v are made with the weights of {', '.join(order)}")
              for order in itertools.product("qkv", repeat=3)
              if sum(a != b for a, b in zip(order, "qkv", strict=True)) == 1]
    for axes, letters in itertools.product(((1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)),
                                           ("qkv", "kv")):
        right = str(len(letters)), "h", "d"
        right, wrong = (f"({', '.join(side)})" for side in (right, [right[n] for n in axes]))
        found += [Switch("interleaved packing", {"reading": (axes, back, letters)},
                         f"{', '.join(letters)}: {stored} is read as {read}")
                  for back, stored, read in ((False, right, wrong), (True, wrong, right))]
    if form.own:
        found += [Switch("interleaved packing", {"reading": (WITHIN, False, letters)},
                         f"{', '.join(letters)}: (h, d) is read as (d, h)")
                  for letters in ("qkvo", "qkv")]
    return found


def _some(letters):
    """Return all choices of one or more letters, the longest first."""
    return ["".join(some) for n in range(len(letters), 0, -1)
            for some in itertools.combinations(letters, n)]
