"""The exercises of the chapter on ten programs and one equation."""

import math
import random
from numbers import Real

import numpy as np
from torch.overrides import TorchFunctionMode

from utils import parity
from utils.checks import TOLERANCES
from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, examined, predictions, untouched
from utils.exercises._ninth import ninth

FSUM = predictions({"fsum": 1}, {"fsum": "It rounds once, after the exact sum. What is left that "
                                         "could depend on the order?"})
TERMS = ([math.sin(n) * math.cos(n * n) for n in range(1, 13)],
         [1e32, 1e16, 3.0, 1.0, -0.5, -1e16, -1e32],
         [(-1) ** n * 10.0 ** (n % 9) / (n + 3) for n in range(40)],
         [0.3, 0.7, -0.7])


class Called(TorchFunctionMode):
    """Notes the names of the functions of PyTorch that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.add(getattr(function, "__name__", ""))
        return function(*args, **kwargs or {})


def _eleventh(program):
    try:
        with Called() as called:
            gaps = [parity.differences(parity.torch_function("yours", program), case)
                    for case in parity.eight_cases()]
    except RuntimeError as error:
        if "not require grad" not in str(error):
            raise
        return "What it returns has lost its gradients: something is detached, or under no_grad."
    outputs = [not gap["out"] <= TOLERANCES["float64"] for gap in gaps]
    if any(outputs):
        row = (f"Its row in float64: outputs {max(gap['out'] for gap in gaps):.1g}, gradients "
               f"{max(max(gap.values()) for gap in gaps):.1g}.{_where(outputs)}")
        return f"{row} {examined(_asked(program), 'layer', **MASKED)}".strip()
    why = _gradients(program, gaps)
    if why or {"bmm", "baddbmm"} & called.names:
        return why
    return "It is the one equation. But nothing in it calls torch.bmm, on three axes."


MASKED = {"masks": "heads alike", "framework": "torch"}


def _where(outputs):
    """Return a sentence on what the wrong ones of the eight cases share, if anything."""
    padding, causal, same = outputs[1::2], outputs[2:4] + outputs[6:], outputs[4:]
    for wrong, name in ((padding, "padding"), (causal, "the causal mask"),
                        (same, "self-attention")):
        if sum(wrong) == sum(outputs) == 4:
            return f" The four cases with {name} are wrong, the other four right."
    return ""


def _asked(program):
    """Return the program for the doctor: keep is always bool, (b, 1, i, j), as in the table."""
    def asked(x, memory, W, n_heads, keep):
        full = x.new_ones(len(x), 1, x.shape[1], memory.shape[1]).bool()
        return program(x, memory, W, n_heads, full if keep is None else full & keep)
    asked.__name__ = getattr(program, "__name__", "your program")
    return asked


def _gradients(program, gaps):
    """Return what is wrong with the gradients, or the float32, of a program with right outputs."""
    over = [name for name in dict.fromkeys(name for gap in gaps for name in gap)
            if any(gap.get(name, 0) > TOLERANCES["float64"] for gap in gaps)]
    if over:
        found = parity.run(parity.torch_function("yours", program), parity.case())
        stuck = [name for name in found if name in over and not found[name].any()]
        zero = f" Those of {', '.join(stuck)} are zero." if stuck else ""
        return (f"All outputs are right, and these gradients are not: {', '.join(over)}.{zero} "
                "What is cut on the way back, or counted twice?")
    try:
        parity.table([parity.torch_function("yours", program)]).check()
    except AssertionError as error:
        return f"Right in float64, but {error}. Is a part computed in half precision?"
    return ""


def _any_order(given):
    if not isinstance(given, dict) or "mine" not in given:
        return "The answer is a dict with the keys 'fsum', 'mine'."
    rest = dict(given)
    mine = rest.pop("mine")
    if mine is math.fsum or "fsum" in getattr(getattr(mine, "__code__", None), "co_names", ()):
        told = "mine: that is fsum again; a sum of your own does without it."
    else:
        told = "Still open: mine." if untouched(mine) else next(
            filter(None, (_orders(mine, terms) for terms in TERMS)), "")
    return listed([part for part in (FSUM(rest), told) if part])


def _orders(mine, terms):
    """Return what is wrong with the sums of these terms in 100 orders, "" if nothing is."""
    rng, sums = random.Random(0), []
    for _ in range(100):
        total = mine(rng.sample(terms, len(terms)))
        total = total.item() if getattr(total, "ndim", None) == 0 else total
        if not isinstance(total, Real):
            return f"mine: it returns {type(total).__name__}, not a number."
        sums.append(float(total))
    exact, allowed = math.fsum(terms), len(terms) * 2.0 ** -52 * sum(map(abs, terms))
    off = float(np.max(np.abs(np.subtract(sums, exact))))
    if not off < 1e-3 * sum(map(abs, terms)):
        return f"mine: of {len(terms)} numbers it is off by up to {off:.1g}: is it their sum?"
    if len(set(sums)) > 1:
        these = f", {terms}," if len(terms) < 8 else ""
        return (f"mine: 100 orders of the same {len(terms)} numbers{these} give {len(set(sums))} "
                "different sums.")
    if off > allowed:
        return (f"mine: the order no longer matters, but digits are lost: it is off by {off:.0e}, "
                f"where adding alone would be by {allowed:.0e} at most.")
    return ""


check = Check({
    "eleventh": Exercise(_eleventh, (
        "split_heads gives (b, h, i, d). Which two axes become one, and in which order do the "
        "numbers lie in it then?",
        "keep is (b, 1, i, j), and the folded scores are (b h, i, j). Each example's mask is "
        "needed once for every head, next to one another.",
        "On the way back, unfold first, (b h, i, d) to (b, h, i, d); then merge as ever."),
        "Its row: ≤ 1e-12 and ≤ 1e-12 in float64, ≤ 1e-5 and ≤ 1e-5 in float32, outputs and "
        "gradients. Where the heads stand is a matter of layout."),
    "ninth_case": Exercise(ninth, (
        "What do all eight have in common? Print the shapes of parity.case() and of "
        "parity.case(self_attention=True).",
        "Every size of theirs is a number that somebody may have written into a program. Change "
        "them all.",
        "In all eight there are at least as many keys as queries, and never more than seven."),
        "A test sees what its sizes let it see: change every one, and their order, too."),
    "any_order": Exercise(_any_order, (
        "The order that the terms come in may be forgotten before the first addition.",
        "Put them in an order of your own. Then it does not matter which they had."),
        "Who fixes the order of adding gets the same bits. A processor in a hurry does not ask "
        "for one."),
})
