"""Examine the whole zoo and write what the doctor made of it, for its page.

    python scripts/zoo_scores.py

Rewrites ``utils/doctor/zoo_scores.json``; what the first edition got right of the half that had
been kept from it stays as it was measured then.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from test_doctor_zoo import counted, examined  # noqa: E402
from zoo.specimen import ZOO  # noqa: E402

from utils.doctor import tables  # noqa: E402


def main():
    """Count, and write the file."""
    scores = tables.load_scores() | {"now": counted({one.name: examined(one) for one in ZOO})}
    tables.FILE.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
    print(tables.scores())


if __name__ == "__main__":
    main()
