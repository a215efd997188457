"""The switches of a layer: its own faults, and those of the kernel inside it."""

import itertools

from utils.doctor._search import Switch
from utils.doctor.faulty.layer import MASKINGS
from utils.doctor.levels import kernel_switches

TOKENS = {0: "n", 1: "h", 2: "d"}
READINGS = [axes for axes in itertools.permutations(range(3)) if axes[0] != 0]
WITHIN = (0, 2, 1)  # each of q, k and v for itself
LEAKS = {"on the queries": "it hides queries instead of keys",
         **{name: f"the mask is used {name}" for name in MASKINGS
            if name.startswith(("in ", "not "))}}
OTHERS = {"tiled over folded heads": "the mask is tiled where (b, h) is folded into one axis",
          "repeated over tiled heads": "the mask is repeated where (h, b) is folded into one axis",
          **{f"of the {which} example": f"all examples get the mask of the {which}"
             for which in ("first", "last")},
          **{f"of the example {where}": f"each example gets the mask of the one {where}"
             for where in ("before", "after")}}


def switches(form, options):
    """Return the Switches that a layer of this form can show, those of its kernel last."""
    found = [Switch("merge without transpose", {"merge": False}),
             Switch("split and merge without transpose", {"torn": "qkv", "merge": False}),
             Switch("split without transpose", {"torn": "qkv"}),
             *_projections(form), *_orders(form)]
    if form.masks != "none":
        for fault, names in (("padding leak", LEAKS), ("other example's mask", OTHERS)):
            found += [Switch(fault, {"masking": name}, detail) for name, detail in names.items()
                      if name != "on the queries" or form.square or form.self_attention]
    if form.square or form.self_attention:
        found.append(Switch("batch and sequence swapped", {"swapped": True}))
    if form.pre_norm:
        found.append(Switch("LayerNorm over time", {"norm": 1}))
    return found + kernel_switches.switches(form.kernel(), options)


def _projections(form):
    """Return the Switches of what is done with the weights of the projections."""
    found = [Switch("missing bias", {"unbiased": letters},
                    f"it uses no bias for {', '.join(letters)}") for letters in _some("qvo")]
    found += [Switch("shared head", {"shared": (head, letters)},
                     f"all heads use the {which} one's {', '.join(letters)}")
              for head, which in ((0, "first"), (-1, "last")) for letters in _some("qkv")]
    if form.masks == "any":  # otherwise all heads have the same mask anyway
        found += [Switch("shared head", {"shared": (head, "qkv mask")},
                         f"all heads are the {which}, its mask included")
                  for head, which in ((0, "first"), (-1, "last"))]
    if form.equal_widths:
        found += [Switch("transposed weight", {"transposed": letters},
                         f"x @ W.T for {', '.join(letters)}") for letters in _some("qkvo")]
        found += [Switch("input split before projection", {"cut": cut})
                  for cut in ("own", "first", "rows")]
        found += [Switch("missing W_o", {"out": out}) for out in ("", "b_o")]
    return found


def _orders(form):
    """Return the Switches of how packed weights are read, and of a module's own features."""
    found = [Switch("packed order", {"order": "".join(order)}, f"read as [{' | '.join(order)}]")
             for order in itertools.permutations("qkv") if "".join(order) != "qkv"]
    for axes in READINGS:
        names = ", ".join(TOKENS[n] for n in axes)
        found += [Switch("interleaved packing", {"reading": (axes, back, letters)}, detail)
                  for letters in ("qkv", "kv") for back, detail in (
                      (False, f"{', '.join(letters)}: (n, h, d) is read as ({names})"),
                      (True, f"{', '.join(letters)}: ({names}) is read as (n, h, d)"))]
    if form.own:
        found += [Switch("interleaved packing", {"reading": (WITHIN, False, letters)},
                         f"{', '.join(letters)}: (h, d) is read as (d, h)")
                  for letters in ("qkvo", "qkv")]
    return found


def _some(letters):
    """Return all choices of one or more letters, the largest first."""
    return ["".join(some) for n in range(len(letters), 0, -1)
            for some in itertools.combinations(letters, n)]
