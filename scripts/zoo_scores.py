"""Examine the whole zoo and write the scores of the doctor, for its page.

    python scripts/zoo_scores.py

Rewrites ``utils/doctor/zoo_scores.json``; what the door zoo gave at first sight stays as it was.
"""

import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/doctor")]

import test_door_zoo as door  # noqa: E402
from test_doctor_zoo import counted, examined  # noqa: E402
from zoo.specimen import ZOO  # noqa: E402

from utils.doctor import zoo_scores  # noqa: E402


def main():
    """Count, and write the file."""
    scores = zoo_scores.load_scores() | {"now": counted({one.name: examined(one) for one in ZOO})}
    reports = {case: door.examined(case) for case in door.CASES}
    found = Counter(door.outcome(case, report) for case, report in reports.items())
    scores["door"]["now"] = {outcome: found[outcome] for outcome in scores["door"]["now"]}
    scores["door"]["sick"] = sum(map(door.sick, door.CASES))
    scores["door"]["called healthy"] = sum(
        door.sick(case) and report.verdict in ("healthy", "note")
        for case, report in reports.items())
    zoo_scores.FILE.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
    print(scores["now"], zoo_scores.at_the_door(), sep="\n")


if __name__ == "__main__":
    main()
