"""The scores of the doctor on programs that were written without sight of it."""

import json
from pathlib import Path

from tabulate import tabulate

FILE = Path(__file__).with_name("zoo_scores.json")
LEVELS = ("kernel", "layer", "decoding")
# What became of a program: "healthy" and "false alarm" are healthy ones, called healthy or sick; a
# listed fault is "named" or "unnamed", another one is "outside", or an "equivalent" was named.
COLUMNS = ("healthy", "false alarm", "named", "unnamed", "outside", "equivalent", "misnamed",
           "missed")


def load_scores():
    """Return the scores of the zoo and of the door zoo.

    ``{"now": {level: {column: count}}, "door": {"now": {outcome: count}, …}}``. Of the "sick"
    programs of the door zoo, so many are "called healthy".
    """
    return json.loads(FILE.read_text(encoding="utf-8"))


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
