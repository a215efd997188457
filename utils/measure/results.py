"""Read the results of `make bench`: ours, ``data/bench.json``, and the reader's, ``bench.json``.

``scripts/bench.py`` writes such a file, a dict. ``machine`` describes the computer, ``roofs`` its
maximal speed (FLOP/s, bytes/s). ``sweep``, ``fast`` and ``grouped`` are lists of dicts, one for
each program and size, with ``seconds`` (``median``, ``low`` and ``high`` quartile, ``least``,
``repeats``) and ``mebibytes``, the memory that the input adds to the process, or None.
``left_out`` lists what was not measured, and why. A part that was not measured is empty.
"""

from numbers import Real
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import files, setup

OURS, READERS = setup.COURSE / "data" / "bench.json", setup.COURSE / "bench.json"
FORMAT = 1
PARTS = ("roofs", "sweep", "fast", "grouped")
KEYS = {"format", "quick", "machine", "sizes", "left_out", *PARTS}
PACKAGES = {"torch": "PyTorch", "numpy": "NumPy", "tensorflow": "TensorFlow", "keras": "Keras"}
MACHINE = {"processor", "cores", "threads", "gibibytes", "gpu", "device", "system", "python",
           "date", *PACKAGES}


class Series(NamedTuple):
    """The results of one program by length of its input: float64 arrays (n,), in order of length.

    ``median``, ``low`` and ``high`` are seconds; the last two are the quartiles. ``mebibytes`` is
    NaN where it was too small to be measured, or not measured.
    """

    n: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mebibytes: np.ndarray


def load(path=OURS, quick=False):
    """Return the contents of a file of ``make bench``, a dict.

    Raises FileNotFoundError if there is no file, ValueError if it is not such a file. Also raises
    ValueError for results of `--quick`, which are not meaningful, unless ``quick`` is True.
    """
    path = Path(path)
    measured = files.read_json(path, "`make bench`")
    check(measured, path)
    if measured["quick"] and not quick:
        raise ValueError(f"{path} was written by --quick, so its results are not meaningful; run "
                         "`make bench`, or pass quick=True")
    return measured


def check(measured, path):
    """Raise ValueError unless ``measured`` is what a file of ``make bench`` holds."""
    written = measured.get("format") if isinstance(measured, dict) else None
    if written != FORMAT:
        raise ValueError(f"{path} must have format {FORMAT}, got {written}; `make bench` writes a "
                         "new one")
    if measured.keys() != KEYS:
        wrong = ", ".join(sorted(measured.keys() ^ KEYS))
        raise ValueError(f"{path} has missing or unknown keys: {wrong}; `make bench` writes a new "
                         "one")
    if wrong := _unreadable(measured):
        raise ValueError(f"{path} cannot be read, because {wrong}; `make bench` writes a new one")


def _unreadable(measured):
    """Return what ``describe`` or ``series`` could not read of a file, "" if there is nothing."""
    kinds = {"quick": bool, "machine": dict, "sizes": dict, "roofs": dict, "sweep": list,
             "left_out": list, "fast": list, "grouped": list}
    for key, kind in kinds.items():
        if not isinstance(measured[key], kind):
            return f"{key} must be a {kind.__name__}, got {measured[key]!r:.40}"
    if missing := sorted(MACHINE - measured["machine"].keys()):
        return f"machine has no {missing[0]}"
    for row in measured["sweep"]:
        try:
            numbers = [row["n"], *(row["seconds"][key] for key in Series._fields[1:4])]
            size = row["mebibytes"]
            whole = all(isinstance(number, Real) for number in [*numbers, size or 0])
            whole = whole and isinstance(row["program"], str)
        except (LookupError, TypeError):
            whole = False
        if not whole:
            return f"a row of sweep lacks a program or its numbers: {row!r:.80}"
    return ""


def programs(measured):
    """Return the names of the programs of the sweep, in the order of the file, a list of str."""
    return list(dict.fromkeys(row["program"] for row in measured["sweep"]))


def series(measured, program):
    """Return the Series of a program of the sweep. Raises ValueError if it was not measured."""
    rows = sorted((row for row in measured["sweep"] if row["program"] == program),
                  key=lambda row: row["n"])
    if not rows:
        raise ValueError(f"{program!r} was not measured; measured programs: "
                         f"{', '.join(map(repr, programs(measured))) or 'none'}")
    seconds = [[row["seconds"][key] for row in rows] for key in Series._fields[1:4]]
    lengths, mebibytes = ([row[key] for row in rows] for key in ("n", "mebibytes"))
    return Series(*(np.array(side, dtype=float) for side in (lengths, *seconds, mebibytes)))


def slope(n, y):
    """Return the exponent p of y ~ nᵖ: the slope of the least-squares line of log y over log n.

    n and y are arrays of one length; elements where y is NaN are ignored. Raises ValueError for
    fewer than two different n, or for numbers that are not positive.
    """
    n, y = (np.asarray(side, dtype=float) for side in (n, y))
    seen = ~np.isnan(y)
    n, y = n[seen], y[seen]
    if len(set(n)) < 2:
        raise ValueError(f"a slope requires at least two different n, got {len(set(n))}")
    if min(n.min(), y.min()) <= 0:
        raise ValueError("n and y must be positive, as their logarithms are taken, got "
                         f"{min(n.min(), y.min()):g}")
    log_n = np.log(n) - np.log(n).mean()
    return float(log_n @ np.log(y) / (log_n @ log_n))


def describe(measured):
    """Return a sentence with the date, the computer and the versions of a measurement."""
    machine = measured["machine"]
    where = machine["gpu"] if machine["device"] == "cuda" else machine["processor"]
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    packages = [f"{PACKAGES[name]} {machine[name]}" for name in PACKAGES if machine[name]]
    return (f"Measured on {machine['date']} on {where} ({cores}, {machine['threads']} used, "
            f"{machine['gibibytes']:g} GiB, {machine['system']}) with Python "
            f"{machine['python']}, {', '.join(packages[:-1])} and {packages[-1]}.")
