"""Seal and read ``data/gpu.json``, the results of `python scripts/gpu.py`, and show them.

The file is a dict. ``machine`` describes the computer, ``sizes`` the inputs, and ``rows`` has a
dict for each program and case. ``forward`` and ``backward`` are spreads of seconds (``median``,
``low`` and ``high`` quartile, ``least``, ``repeats``) or None, ``rate`` bytes per second or None.
``difference`` is the largest difference of the output from float64, ``grad_difference`` that of the
gradients, None where nothing was compared, and ``not_finite`` counts their NaN and infinite
elements. ``why`` says what was not measured, and why. ``seal`` is the SHA-256 of all that.
"""

import hashlib
import json
from numbers import Real
from pathlib import Path

from .. import files, setup

OURS = setup.COURSE / "data" / "gpu.json"
FORMAT = 1
WRITER = "`python scripts/gpu.py`"
KEYS = {"format", "small", "machine", "sizes", "rows", "seal"}
MACHINE = {"device", "name", "torch", "cuda", "cudnn", "triton", "python", "date"}
NAMES, SPREADS = ("part", "program", "case", "why"), ("forward", "backward")
NUMBERS = ("rate", "difference", "grad_difference", "not_finite")
HEAD = ("program", "case", "forward, ms", "backward, ms", "GB/s", "difference",
        "of gradients", "not finite", "note")


def seal(found):
    """Return the SHA-256 of a dict without its own ``seal``, 64 hexadecimal digits."""
    text = json.dumps({key: value for key, value in found.items() if key != "seal"},
                      sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write(found, path):
    """Write a dict to ``path``, a JSON file, with its seal.

    Raises ValueError for NaN and infinite numbers, which are not JSON, and as ``files.write``.
    """
    text = json.dumps(found | {"seal": seal(found)}, indent=1, ensure_ascii=False, allow_nan=False)
    files.write(path, f"{text}\n".encode())


def load(path=OURS, small=False):
    """Return the contents of a file of ``scripts/gpu.py``, a dict.

    Raises FileNotFoundError if there is no file, ValueError if it is not such a file, or was
    changed after it was written. Also raises ValueError for the results of `--small`, which are not
    meaningful, unless ``small`` is True.
    """
    found = files.read_json(path, WRITER)
    if wrong := _unreadable(found):
        raise ValueError(f"{Path(path)} cannot be read, because {wrong}; {WRITER} writes a new one")
    if found["small"] and not small:
        raise ValueError(f"{Path(path)} was written by --small, so its results are not meaningful; "
                         f"run {WRITER} on a computer with a GPU, or pass small=True")
    return found


def _unreadable(found):
    """Return what is wrong with the contents of a file, "" if nothing is."""
    written = found.get("format") if isinstance(found, dict) else None
    if written != FORMAT or isinstance(written, bool):
        return f"its format must be {FORMAT}, got {written}"
    if found.keys() != KEYS:
        return f"it has missing or unknown keys: {', '.join(sorted(found.keys() ^ KEYS))}"
    if found["seal"] != seal(found):
        return "it was changed after it was written: its seal does not fit its contents"
    if not isinstance(found["small"], bool) or not isinstance(found["rows"], list):
        return "small must be a bool and rows a list"
    if not isinstance(found["machine"], dict) or MACHINE - found["machine"].keys():
        return f"machine must have the keys {', '.join(sorted(MACHINE))}"
    wrong = [row for row in found["rows"] if not _whole(row)]
    return f"a row lacks a name or a number: {wrong[0]!r:.80}" if wrong else ""


def _whole(row):
    """Return whether a row has all that ``table`` shows."""
    try:
        medians = [row[key] and row[key]["median"] for key in SPREADS]
        return (all(isinstance(row[key], str) for key in NAMES)
                and all(number is None or isinstance(number, Real)
                        for number in (*medians, *(row[key] for key in NUMBERS))))
    except (LookupError, TypeError):
        return False


def describe(found):
    """Return a sentence with the date, the device and the versions of a measurement, a str."""
    machine = found["machine"]
    cuda = f", CUDA {machine['cuda']}" if machine["cuda"] else ""
    return (f"Measured on {machine['date']} on {machine['name']} ({machine['device']}) with "
            f"PyTorch {machine['torch']}{cuda} and Python {machine['python']}.")


def table(found, part):
    """Return the rows of one part as a Markdown table, a str. Raises ValueError for no such part.

    A row that was not measured shows dashes, and says why.
    """
    rows = [row for row in found["rows"] if row["part"] == part]
    if not rows:
        raise ValueError(f"{part!r} was not measured; the parts are: "
                         f"{', '.join(map(repr, parts(found))) or 'none'}")
    lines = [HEAD, [":--", ":--", *["--:"] * 6, ":--"], *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def report(path=OURS, small=False):
    """Return all that a file says as Markdown, a str: a sentence, and a table for each part.

    Without a file, it is one sentence, which says what writes it. Raises ValueError as ``load``.
    """
    if not Path(path).exists():
        return f"No GPU was measured yet; {WRITER} writes the file."
    found = load(path, small)
    return "\n\n".join([describe(found), *(f"**{part}**\n\n{table(found, part)}"
                                           for part in parts(found))])


def parts(found):
    """Return the names of the parts in the order of the file, a list of str."""
    return list(dict.fromkeys(row["part"] for row in found["rows"]))


def _cells(row):
    """Return the cells of a row of the table, a list of str."""
    times = [row[key] and 1e3 * row[key]["median"] for key in SPREADS]
    rate = row["rate"] and row["rate"] / 1e9
    numbers = [(time, ".3f") for time in times] + [(rate, ".0f"), (row["difference"], ".1e"),
                                                   (row["grad_difference"], ".1e"),
                                                   (row["not_finite"], ".0f")]
    return [row["program"], row["case"],
            *("–" if number is None else format(number, digits) for number, digits in numbers),
            row["why"].replace("|", "\\|")]
