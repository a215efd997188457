"""What the doctor made of the zoo of ``tests/zoo``, for its page.

``zoo_scores.json`` is written by ``scripts/zoo_scores.py``; ``tests/test_doctor_zoo.py`` counts
again and fails where the file says something else.
"""

import json
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")
COLUMNS = {"healthy": "healthy, called so", "false alarm": "healthy, called sick",
           "named": "listed fault, named", "unnamed": "listed fault, no match",
           "outside": "other fault, no match", "equivalent": "other fault, an equivalent named",
           "misnamed": "named wrongly", "missed": "sick, not noticed"}
LEVELS = ("kernel", "layer", "decoding")


def load():
    """Return the scores: {"now": {level: {column: count}}, "held out": {level: [right, of]}}."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def markdown():
    """Return the scores of the doctor as it is now, a Markdown table."""
    now = load()["now"]
    lines = [["of the zoo's programs", *LEVELS, "all"], ["---", *["--:"] * (len(LEVELS) + 1)]]
    for column, words in COLUMNS.items():
        counts = [now[level][column] for level in LEVELS]
        lines.append([words, *map(str, counts), str(sum(counts))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def held_out():
    """Return one sentence: what the first edition got right of the half kept from it."""
    first = load()["held out"]
    parts = [f"{right} of {of} {level}{'s' * (level != 'decoding')}"
             for level, (right, of) in first.items()]
    return f"The first edition, on the half that it had not seen: right on {', '.join(parts)}."
