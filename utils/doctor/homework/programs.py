"""Sick programs by number: each student gets one and finds out what is wrong with it."""

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ... import reference
from .. import faulty
from .._search import Switch
from ..faults import FAULTS
from ..faulty.kernel import Band, Masking
from ..levels import kernel_cases, kernel_switches, layer_cases, layer_switches
from ..levels.kernel_constants import mask_value_text
from ..levels.kernel_switches import Options

LEVELS = ("kernel", "layer")
CONTRACTS = {
    "kernel": """Arrays are NumPy's: q (b, h, i, d), k (b, h_kv, j, d), v (b, h_kv, j, d_v), context
(b, h, i, d_v). There may be fewer heads of k and v: h_kv divides h. `keep` is None or bool, True =
may attend, and broadcasts to (b, h, i, j).""",
    "layer": """Arrays are NumPy's: x (b, i, e), memory (b, j, e), out (b, i, e). `weights` is a
dict of W_q, W_k, W_v, W_o, each (e, e) and used as x @ W, and b_q, b_k, b_v, b_o, each (e,);
n_heads divides e. `keep` is None or bool, True = may attend, and broadcasts to (b, h, i, j).""",
}
MOST = 6  # programs of one fault in a panel


class Program(NamedTuple):
    """A program, the name of its fault, "" for none, and in words what is special about it."""

    fault: str
    detail: str
    run: object


class SickProgram:
    """A sick program that shows its number and nothing else."""

    def __init__(self, number, level):
        if level not in LEVELS or number < 0:
            raise ValueError("the number must be at least 0 and the level one of "
                             f"{', '.join(LEVELS)}, got {number} and {level!r}")
        self.number, self.level = int(number), level
        self.__name__ = f"program {self.number}"

    def __call__(self, *args):
        return chosen(self.number, self.level).run(*args)

    def __repr__(self):
        return f"<{self.__name__}, a {self.level}>"


def assignment(number, level="kernel"):
    """Return the sick program with this number, a callable that does not show its fault.

    ``level``: "kernel" or "layer"; ``CONTRACTS`` says how its programs are called. ``python -m
    utils.doctor.homework reveal NUMBER`` prints the fault. Raises ValueError for another level or a
    number below 0.
    """
    return SickProgram(number, level)


@lru_cache(maxsize=256)
def chosen(number, level="kernel"):
    """Return the Program with a number: a fault is drawn first, then a program with this fault.

    A program with dropout keeps the state of its random numbers between calls.
    """
    rng = np.random.default_rng([number, LEVELS.index(level)])
    programs = sick(level, rng)
    mine = programs[rng.choice(list(programs))]
    return mine[rng.integers(len(mine))]


def names(level):
    """Return the names of the faults that programs of a level can have."""
    return list(sick(level, np.random.default_rng(0)))


def sick(level, rng):
    """Return {fault: its Programs, at most MOST} of a level; ``rng`` draws constants."""
    if level == "kernel":
        run, form = kernel, kernel_cases.Form(grouped=True)
        switches = kernel_switches.switches(form, Options(grouped=True)) + _constants(rng)
    else:
        run, form = faulty.layer.layer, layer_cases.Form(equal_widths=True)
        switches = [switch for switch in layer_switches.switches(form, Options())
                    if FAULTS[switch.fault].level == "layer"]
    found = {}
    for fault, settings, detail in switches:
        found.setdefault(fault, []).append(Program(fault, detail, partial(run, **settings)))
    return {fault: [mine[n] for n in sorted(rng.permutation(len(mine))[:MOST])]
            for fault, mine in found.items()}


def _constants(rng):
    """Return the Switches of constants, which are drawn, and of dropout."""
    near, far, added = -rng.uniform(1, 8), -rng.uniform(50, 200), -rng.uniform(3, 10)
    width, scale, share = int(rng.integers(1, 4)), rng.uniform(0.15, 0.85), rng.uniform(0.1, 0.5)
    dropout = share, np.random.default_rng(rng.integers(2**32))
    values = [Switch("mask value too high", {"masking": Masking(how, "keep", value)},
                     mask_value_text(how, f"{value:.3g}"))
              for how, value in (("fill", near), ("fill", far), ("add", added))]
    return [Switch("constant scale", {"scale": scale}, f"the scale is {scale:.3g}"),
            Switch("window", {"band": Band(width, width)},
                   f"a query attends only to keys up to {width} positions away"),
            *values, Switch("dropout in eval", {"dropout": dropout}, f"p = {share:.2g}")]


def kernel(q, k, v, keep=None, dropout=None, **settings):
    """Return the context of a faulty kernel; ``dropout``: (p, the Generator that draws)."""
    context, weights = faulty.kernel.attention(q, k, v, keep, **settings)
    if dropout is None:
        return context
    share, rng = dropout
    kept = rng.random(weights.shape) >= share
    return kept * weights / (1 - share) @ reference.repeat_heads(v, q.shape[1])
