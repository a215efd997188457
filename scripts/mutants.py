"""Print how many of the mutants that mutmut made the tests killed, and fail below 95 %.

A mutant is a function with one small change, such as ``<`` for ``<=``. It is killed when a test
fails, crashes or takes far too long. Run by ``make mutants``, after mutmut.
"""

import json
import sys
from pathlib import Path

from mutmut.stats import status_by_exit_code
from tabulate import tabulate

MUTANTS = Path(__file__).resolve().parents[1] / "mutants"
KILLED = {"killed", "timeout", "segfault"}
REQUIRED = 95  # per cent


def counts(folder):
    """Return {module: (mutants killed, mutants run)}, read from what mutmut wrote in ``folder``."""
    found = {}
    for path in sorted(folder.rglob("*.py.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].values()
        run = [status_by_exit_code[code] for code in codes if code is not None]
        if run:
            module = path.relative_to(folder).with_suffix("").as_posix()
            found[module] = sum(status in KILLED for status in run), len(run)
    return found


def main(folder=MUTANTS):
    """Print a row for each module and the total; return the exit status."""
    found = counts(folder)
    killed, run = (sum(column) for column in zip(*found.values(), strict=True))
    rows = [(module, *pair, f"{100 * pair[0] / pair[1]:.1f}")
            for module, pair in [*found.items(), ("total", (killed, run))]]
    print(tabulate(rows, ("module", "killed", "mutants", "%"), disable_numparse=True,
                   colalign=("left", "right", "right", "right")))
    if 100 * killed < REQUIRED * run:
        print(f"Below {REQUIRED} %. `mutmut results` lists the mutants that survived, "
              "`mutmut show NAME` prints one.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
