"""Judge of `window_tiles` in the chapter on flash attention: the tiles, and their cost."""

import sys

import numpy as np

from .. import masks

CASES = ((22, 4, 6), (22, 4, 0), (12, 3, 3), (12, 3, 2), (10, 5, 4), (9, 4, 100), (7, 10, 2))
TILE_ROWS = 100, 200


def judge_tiles(program):
    """Return what is wrong with window_tiles(n, tile, left), "" if nothing is."""
    for n, tile, left in CASES:
        message = _wrong_tiles(program(n, tile, left), n, tile, left)
        if message:
            return f"With n = {n}, tile = {tile}, left = {left}: {message}"
    short, long = (_steps(program, count) for count in TILE_ROWS)
    if long > 3 * short:
        return ("The list is right. But for a sequence twice as long, the work is "
                f"{long / short:.0f} times as large: you test tiles that you do not need. Where "
                "does a row of tiles begin, and where does it end?")
    return ""


def _wrong_tiles(pairs, n, tile, left):
    """Return what is wrong with the tiles of one case."""
    if not hasattr(pairs, "__iter__"):
        return f"it must yield tiles, or return a list of them, not {type(pairs).__name__}."
    keep, times = masks.window(n, n, left), np.zeros((n, n), dtype=int)
    unneeded = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(
                isinstance(side, slice) for side in pair):
            return "each tile must be a pair of slices, (rows, columns)."
        ends = [(side.start or 0, side.stop) for side in pair]
        if any(stop is None or not 0 <= start < stop <= n for start, stop in ends):
            return f"{_name(pair)}: a slice must be within 0 … {n} and not empty."
        if any(stop - start > tile for start, stop in ends):
            return f"{_name(pair)} is larger than {tile} by {tile}."
        times[pair] += 1
        if not keep[pair].any():
            unneeded.append(pair)
    missed, twice = (keep & (times == 0)).nonzero(), (times > 1).nonzero()
    if len(missed[0]):
        return (f"query {missed[0][0]} may attend to key {missed[1][0]}, but no tile contains this "
                f"pair (there are {len(missed[0])} such pairs).")
    if len(twice[0]):
        return f"query {twice[0][0]} and key {twice[1][0]} are in several tiles."
    return _unneeded(unneeded)


def _unneeded(pairs):
    """Return a message about tiles in which no query may attend to a key, "" for none."""
    if not pairs:
        return ""
    after = sum(columns.start >= rows.stop for rows, columns in pairs)
    where = "after the query or before its window"
    if after == len(pairs):
        where = "after the query"
    if not after:
        where = "before the window"
    return (f"{len(pairs)} tiles are not needed, such as {_name(pairs[0])}: their keys are all "
            f"{where}.")


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
