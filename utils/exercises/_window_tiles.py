"""The judge of an exercise on the tiles of a sliding window: which are listed, and at what cost."""

import sys

import numpy as np

from utils import masks

CASES = ((22, 4, 6), (22, 4, 0), (12, 3, 3), (12, 3, 2), (10, 5, 4), (9, 4, 100), (7, 10, 2))
LONG = 100, 200     # tiles a side


def window_tiles(program):
    """Return what is wrong with window_tiles(n, tile, left), "" if nothing is."""
    for n, tile, left in CASES:
        why = _listed(program(n, tile, left), n, tile, left)
        if why:
            return f"With n = {n}, tile = {tile}, left = {left}: {why}"
    short, long = (_steps(program, count) for count in LONG)
    if long > 3 * short:
        return ("The list is right. But when the text doubles, the work grows "
                f"{long / short:.0f}-fold: tiles are looked at and thrown away. Where does a row "
                "of tiles begin, and where does it end?")
    return ""


def _listed(pairs, n, tile, left):
    """Return what is wrong with the tiles of one case."""
    if not hasattr(pairs, "__iter__"):
        return f"tiles are yielded, or a list of them returned, not {type(pairs).__name__}."
    keep, times = masks.window(n, n, left), np.zeros((n, n), dtype=int)
    idle = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(
                isinstance(side, slice) for side in pair):
            return "each tile is a pair of slices, (rows, columns)."
        ends = [(side.start or 0, side.stop) for side in pair]
        if any(stop is None or not 0 <= start < stop <= n for start, stop in ends):
            return f"{_name(pair)}: a slice lies in 0 … {n}, and is not empty."
        if any(stop - start > tile for start, stop in ends):
            return f"{_name(pair)} is larger than {tile} by {tile}."
        times[pair] += 1
        if not keep[pair].any():
            idle.append(pair)
    missed, twice = (keep & (times == 0)).nonzero(), (times > 1).nonzero()
    if len(missed[0]):
        return (f"query {missed[0][0]} sees key {missed[1][0]}, and no tile holds the two "
                f"({len(missed[0])} such pairs).")
    if len(twice[0]):
        return f"query {twice[0][0]} and key {twice[1][0]} are in more than one tile."
    return _idle(idle, n)


def _idle(idle, n):
    """Return what is wrong with tiles that nobody sees."""
    if not idle:
        return ""
    future = [pair for pair in idle if pair[1].start >= pair[0].stop]
    where = ("they lie in the future" if len(future) == len(idle) else
             "they lie before the window" if not future else
             "they lie in the future or before the window")
    return f"nobody sees any of {len(idle)} tiles, {_name(idle[0])} for one: {where}."


def _name(pair):
    rows, columns = ((side.start, side.stop) for side in pair)
    return f"rows {rows[0]}:{rows[1]}, columns {columns[0]}:{columns[1]}"


def _steps(program, count):
    """Return how many steps of Python a list of ``count`` rows of tiles takes."""
    steps = 0

    def trace(frame, event, _):
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for _ in program(1000 * count, 1000, 1000):
            pass
    finally:
        sys.settrace(before)
    return steps
