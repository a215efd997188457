"""Print how many of the mutants that mutmut made the tests killed, and fail below 95 %.

A mutant is a function with one small change, such as ``<=`` for ``<``. A test kills it by failing,
by crashing, or by taking far too long. When pytest could not run the tests, for example because the
name of one cannot be given on a command line, mutmut says timeout, too: such mutants are not
killed. Run by ``make mutants``, after mutmut.
"""

import json
import sys
from pathlib import Path

from mutmut.stats import status_by_exit_code
from tabulate import tabulate

MUTANTS = Path(__file__).resolve().parents[1] / "mutants"
KILLED = ("killed", "segfault", "timeout")
NOT_RUN = 255  # the exit code of a worker that raised an exception
REQUIRED = 95  # per cent


def statuses(folder):
    """Return {module: [the status of each mutant that was run]}, as mutmut wrote it."""
    found = {}
    for path in sorted(folder.rglob("*.py.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].values()
        found[path.relative_to(folder).with_suffix("").as_posix()] = [
            "not run" if code == NOT_RUN else status_by_exit_code[code]
            for code in codes if code is not None]
    return {module: status for module, status in found.items() if status}


def row(name, status):
    """Return name, mutants killed, those of them by a timeout, mutants run, and per cent killed."""
    killed = sum(status.count(way) for way in KILLED)
    return name, killed, status.count("timeout"), len(status), 100 * killed / len(status)


def main(folder=MUTANTS):
    """Print a row for each module and the total; return the exit status."""
    found = statuses(folder)
    total = row("total", [one for status in found.values() for one in status])
    print(tabulate([*(row(*item) for item in found.items()), total], floatfmt=".1f",
                   headers=("module", "killed", "by timeout", "of", "%")))
    if total[-1] < REQUIRED:
        print(f"Below {REQUIRED} %. `mutmut results` lists the mutants that survived, and "
              "`mutmut show NAME` prints one.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
