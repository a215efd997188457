"""What `make bench` measured, read back: ours, in ``data/bench.json``, and the reader's.

A file is a dict. ``machine`` says where it comes from, ``roofs`` what that machine can do at most
(FLOP/s, bytes/s); ``sweep``, ``fast`` and ``grouped`` are lists of dicts, one for each program and
size, with ``seconds`` (``median``, ``low`` and ``high`` quartile, ``least``, ``repeats``) and
``mebibytes``, what the input adds to the process, or None; ``left_out`` says what was not measured,
and why. A part that was not measured is empty. Written by ``scripts/bench.py``.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from utils import setup

OURS, READERS = setup.COURSE / "data" / "bench.json", setup.COURSE / "bench.json"
FORMAT = 1
PARTS = ("roofs", "sweep", "fast", "grouped")
KEYS = {"format", "quick", "machine", "sizes", "left_out", *PARTS}
PACKAGES = {"torch": "PyTorch", "numpy": "NumPy", "tensorflow": "TensorFlow", "keras": "Keras"}


class Series(NamedTuple):
    """One program over the length of its input: arrays (n,), float64, the lengths increasing.

    ``median``, ``low`` and ``high`` are seconds, the last two the quartiles. ``mebibytes`` is NaN
    where it was too small to be seen, or not measured.
    """

    n: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mebibytes: np.ndarray


def load(path=OURS, quick=False):
    """Return what a file of ``make bench`` holds, a dict.

    Raises FileNotFoundError where there is none, ValueError for anything else than such a file, and
    for the figures of `--quick`, which mean nothing, unless ``quick`` is True.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there; `make bench` writes it")
    try:
        measured = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}); `make bench` writes it anew") from error
    check(measured, path)
    if measured["quick"] and not quick:
        raise ValueError(f"{path} was written by --quick, and its figures mean nothing; run "
                         "`make bench`, or pass quick=True")
    return measured


def check(measured, path):
    """Raise ValueError unless ``measured`` has the form of what ``make bench`` writes."""
    written = measured.get("format") if isinstance(measured, dict) else None
    if written != FORMAT:
        raise ValueError(f"{path} has format {written}, and this course reads {FORMAT}; "
                         "`make bench` writes it anew")
    if measured.keys() != KEYS:
        wrong = ", ".join(sorted(measured.keys() ^ KEYS))
        raise ValueError(f"{path} lacks, or has too much: {wrong}; `make bench` writes it anew")


def programs(measured):
    """Return the names of the programs of the sweep, in the order of the file, a list of str."""
    return list(dict.fromkeys(row["program"] for row in measured["sweep"]))


def series(measured, program):
    """Return the Series of a program of the sweep. Raises ValueError where it was not measured."""
    rows = sorted((row for row in measured["sweep"] if row["program"] == program),
                  key=lambda row: row["n"])
    if not rows:
        raise ValueError(f"{program!r} was not measured; there are: "
                         f"{', '.join(map(repr, programs(measured))) or 'none'}")
    seconds = [[row["seconds"][key] for row in rows] for key in Series._fields[1:4]]
    lengths, mebibytes = ([row[key] for row in rows] for key in ("n", "mebibytes"))
    return Series(*(np.array(side, dtype=float) for side in (lengths, *seconds, mebibytes)))


def slope(n, y):
    """Return the power p of y ~ nᵖ: the slope of the least-squares line of log y over log n.

    Arrays (n,); where y is NaN it is passed over. Raises ValueError for fewer than two points, or
    numbers that are not positive.
    """
    n, y = (np.asarray(side, dtype=float) for side in (n, y))
    seen = ~np.isnan(y)
    n, y = n[seen], y[seen]
    if len(set(n)) < 2:
        raise ValueError(f"a slope needs two lengths or more, got {len(set(n))}")
    if min(n.min(), y.min()) <= 0:
        raise ValueError("only positive numbers have a logarithm, got "
                         f"{min(n.min(), y.min()):g}")
    log_n = np.log(n) - np.log(n).mean()
    return float(log_n @ np.log(y) / (log_n @ log_n))


def describe(measured):
    """Return one sentence: on what was measured, with what, when."""
    machine = measured["machine"]
    where = machine["gpu"] if machine["device"] == "cuda" else machine["processor"]
    cores = f"{machine['cores']} core{'s' * (machine['cores'] > 1)}"
    packages = [f"{PACKAGES[name]} {machine[name]}" for name in PACKAGES if machine[name]]
    return (f"Measured on {machine['date']} on {where} ({cores}, {machine['threads']} used, "
            f"{machine['gibibytes']:g} GiB, {machine['system']}) with Python "
            f"{machine['python']}, {', '.join(packages[:-1])} and {packages[-1]}.")
