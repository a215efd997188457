"""The search for the smallest sets of switches that explain what a program returned.

A ``Switch`` is a fault, with settings of the faulty program that show it. Sets of up to three are
tried in order of size, so a program without a fault is recognised first.
"""

import itertools
import math
import time
from typing import NamedTuple

import numpy as np

from .. import checks

# The largest ``checks.difference`` that counts as the same, per dtype.
TOLERANCES = {"float64": 2e-5, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}
BOUNDS = (1e-9, 1e-5, 1e-3)  # a difference below is rounding, which depends on the computer
LARGEST = 3      # switches in a set
SECONDS = 2.0    # of CPU time of this thread, after which the search ends …
LEAST = 500      # … once it has tried so many sets


class Switch(NamedTuple):
    """The name of a fault, settings that show it, and in words what is special about them."""

    fault: str
    settings: dict
    detail: str = ""


class Search(NamedTuple):
    """The sets of switches that were found, how many sets were tried, and how many there are."""

    found: list
    tried: int
    sets: int


def search(switches, agrees, largest=LARGEST, seconds=None, least=LEAST, rare=(), alone=(),
           beside=()):
    """Return the Search for all smallest sets of switches for which ``agrees(settings)`` is true.

    Its ``found`` is [()] if no switch is needed, and [] if no set agrees. Two switches with a
    setting in common are never in one set. Sets of the last switches are tried first.
    ``rare``: switches that are in no set of three. ``alone``: switches that are in no set with
    others, but with each of ``beside``.
    """
    end, tried = time.thread_time() + (SECONDS if seconds is None else seconds), 0
    pools = [[*rare, *switches] if size < 3 else switches for size in range(1 + largest)]
    further = ([], [(one,) for one in alone], [*itertools.product(beside, alone)], [])
    sets = sum(math.comb(len(pool), size) + len(further[size]) for size, pool in enumerate(pools))
    for size, pool in enumerate(pools):
        found, least = [], least + len(further[size])
        for some in reversed([*itertools.combinations(pool, size), *further[size]]):
            if size > 1 and tried >= least and time.thread_time() > end:
                return Search(found[::-1], tried, sets)
            tried += 1
            settings = merged(some)
            if settings is not None and agrees(settings):
                found.append(some)
        if found:
            break
    return Search(found[::-1], tried, sets)


def merged(switches):
    """Return the settings of several switches as one dict, or None if two share a setting."""
    settings = {}
    for switch in switches:
        if settings.keys() & switch.settings.keys():
            return None
        settings |= switch.settings
    return settings


def gap(got, expected, defined_only=False):
    """Return ``checks.difference``; infinite where only one of both is NaN.

    ``defined_only``: elements where expected is NaN are not compared.
    """
    if defined_only:
        got = np.where(np.isnan(expected), np.nan, got)
    found = checks.difference(got, expected)
    return np.inf if np.isnan(found) else found


def rounded(number):
    """Return a difference as text; one of rounding as its bound, which is the same everywhere."""
    for bound in BOUNDS:
        if number < bound:
            return f"< {bound:.0e}".replace("e-0", "e-")
    return f"{number:.0e}"
