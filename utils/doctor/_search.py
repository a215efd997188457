"""Which switches, set together, reproduce what a program did? The smallest sets that do.

A ``Switch`` is a fault and the settings of the faulty program that show it; sets of up to three are
tried in order of size, so a program without fault is recognised first.
"""

import itertools
import math
import time
from typing import NamedTuple

import numpy as np

# The largest |got - expected| / max(1, |expected|) that counts as the same, per dtype.
TOLERANCES = {"float64": 2e-5, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}
BOUNDS = (1e-9, 1e-5, 1e-3)  # below which a difference is rounding, and not the same everywhere
LARGEST = 3      # switches in a set
SECONDS = 2.0    # of this thread's own work, after which no larger sets are tried …
LEAST = 500      # … once so many have been: in a wide layer, those of a kernel's two faults


class Switch(NamedTuple):
    """A fault by name, the settings that show it, and what is special about it here, in words."""

    fault: str
    settings: dict
    detail: str = ""


class Search(NamedTuple):
    """The sets of switches that were found, how many sets were tried, and how many there are."""

    found: list
    tried: int
    sets: int


def search(switches, agrees, largest=LARGEST, seconds=SECONDS, least=LEAST):
    """Return a Search for all smallest sets of switches for which ``agrees(settings)`` is true.

    [()] means that no switch is needed, [] that no set will do. Two switches with a setting in
    common are never in one set. Sets of the last switches are tried first.
    """
    end, tried = time.thread_time() + seconds, 0
    sets = sum(math.comb(len(switches), size) for size in range(1 + largest))
    for size in range(largest + 1):
        found = []
        for some in reversed([*itertools.combinations(switches, size)]):
            if size > 1 and tried >= least and time.thread_time() > end:
                return Search(found[::-1], tried, sets)
            tried += 1
            settings = together(some)
            if settings is not None and agrees(settings):
                found.append(some)
        if found:
            break
    return Search(found[::-1], tried, sets)


def together(switches):
    """Return the settings of several switches as one dict, None where two want the same one."""
    settings = {}
    for switch in switches:
        if settings.keys() & switch.settings.keys():
            return None
        settings |= switch.settings
    return settings


def gap(got, expected, defined_only=False):
    """Return the largest |got - expected| / max(1, |expected|), infinite where one is NaN.

    ``defined_only``: where expected is NaN, got may be anything; otherwise it must be NaN too.
    """
    with np.errstate(all="ignore"):
        gaps = np.abs(got - expected) / np.maximum(1.0, np.abs(expected))
    passed = np.isnan(expected) & (np.isnan(got) | defined_only)
    gaps = np.where(passed | (got == expected), 0.0, np.where(np.isnan(gaps), np.inf, gaps))
    return float(gaps.max(initial=0.0))


def rounded(number):
    """Return a difference as text, the same on every machine: one of rounding only by its bound."""
    bound = next((bound for bound in BOUNDS if number < bound), None)
    return f"< {bound:.0e}".replace("e-0", "e-") if bound else f"{number:.0e}"
