"""The scores of the doctor on the zoo, programs that were written without sight of it."""

import json
from pathlib import Path

from tabulate import tabulate

FILE = Path(__file__).with_name("zoo_scores.json")
COLUMNS = {"healthy": "healthy, called healthy", "false alarm": "healthy, called sick",
           "named": "listed fault, named", "unnamed": "listed fault, unexplained",
           "outside": "other fault, unexplained", "equivalent": "other fault, an equivalent named",
           "misnamed": "named wrongly", "missed": "sick, not caught"}
LEVELS = ("kernel", "layer", "decoding")


def load_scores():
    """Return the scores of the zoo and of the door zoo.

    ``{"now": {level: {column: count}}, "held out": {level: [right, of]}, "door": {"now": …}}``. Of
    the "sick" programs of the door zoo, so many are "called healthy".
    """
    return json.loads(FILE.read_text(encoding="utf-8"))


def scores():
    """Return the present scores of the doctor on the zoo as a Markdown table."""
    now = load_scores()["now"]
    cells = []
    for column, words in COLUMNS.items():
        counts = [now[level][column] for level in LEVELS]
        cells.append([words, *counts, sum(counts)])
    return tabulate(cells, ["programs of the zoo", *LEVELS, "all"], tablefmt="pipe",
                    colalign=("left", *["right"] * (len(LEVELS) + 1)))


def held_out():
    """Return a sentence on the score of the first edition on the half of the zoo kept from it."""
    first = load_scores()["held out"]
    kernel, layer, decoding = (f"{right} of {of}" for right, of in map(first.get, LEVELS))
    return ("On the half that it had not seen, the first edition was right on "
            f"{kernel} kernels, {layer} layers and {decoding} decoders.")


def at_the_door():
    """Return a Markdown table of the scores on the door zoo, examined without options."""
    first, now = (load_scores()["door"][which] for which in ("first", "now"))
    programs = sum(now.values())
    first = first | {"not examined": programs - first["examined"],
                     "misjudged": first["examined"] - first["right"] - first["false alarm"]}
    cells = [[words, first[outcome], now[outcome]] for outcome, words in (
        ("right", "judged as declared"), ("misjudged", "sick, and not named as declared"),
        ("false alarm", "healthy, called sick"), ("not examined", "not examined"))]
    return tabulate(cells, [f"of {programs} programs", "at first sight", "now"], tablefmt="pipe",
                    colalign=("left", "right", "right"))
