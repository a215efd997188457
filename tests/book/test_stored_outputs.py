"""Nobody can change a number on a page without a test that fails: nbval compares every output.

That the outputs are those of the code is what `make notebooks` proves; here nbval itself, told by
``replay_kernel`` what the code gives, is shown outputs that were altered.
"""

import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import nbformat
import notebook_rules
from nbval.plugin import get_sanitize_patterns
from notebook_page import ROOT, tags, text

PATTERNS = get_sanitize_patterns((ROOT / "tests" / "nbval_sanitize.cfg").read_text("utf-8"))


def alter(shown, patterns=PATTERNS):
    """Return a text with its last digit changed; None when nbval compares no digit of it."""
    overlooked = [match.span() for regex, _ in patterns for match in re.finditer(regex, shown)]
    for match in reversed(list(re.finditer(r"\d", shown))):
        n = match.start()
        if not any(start <= n < end for start, end in overlooked):
            return shown[:n] + str((int(shown[n]) + 1) % 10) + shown[n + 1:]
    return None


def alterations(cell):
    """Return a list: for each compared output with a digit, a function that alters it."""
    found = []
    for output in cell.outputs:
        bundle = output if output.output_type == "stream" else output.get("data", {})
        for key in ("text", "text/plain", "text/markdown", "text/html", "evalue"):
            place = output if key == "evalue" else bundle
            if alter(place.get(key, "")) is not None:
                found.append((place, key))
    return found


def altered_copies(folder):
    """Write copies of the book, each with at most one altered output a cell.

    Copy k alters the k-th compared output of every cell that has so many. Returns the altered
    cells, a set of "copy/chapters/part/page.ipynb::Cell n", as nbval names them.
    """
    expected = set()
    for page in notebook_rules.book():
        cells = [("nbval-ignore-output" in tags(cell), cell) for _, cell in page.code]
        most = max(len(alterations(cell)) for ignored, cell in cells if not ignored)
        for k in range(most):
            nb = nbformat.from_dict(page.nb)
            for number, cell in enumerate(cell for cell in nb.cells if cell.cell_type == "code"):
                places = alterations(cell)
                if len(places) > k and "nbval-ignore-output" not in tags(cell):
                    place, key = places[k]
                    place[key] = alter(place[key])
                    expected.add(f"{k}/{page.path.as_posix()}::Cell {number}")
            target = folder / str(k) / page.path
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(nb, target)
    return expected


def nbval(folder):
    """Let nbval compare the notebooks below ``folder``; return (cells that failed, how many)."""
    report = folder / "report.xml"
    subprocess.run([sys.executable, "-m", "pytest", "-c", str(ROOT / "tests" / "nbval.ini"), "-q",
                    "-n", "0", "-p", "replay_kernel", f"--rootdir={folder}",
                    f"--junitxml={report}", "-o", "junit_family=xunit1",
                    "-p", "no:cacheprovider", "--tb=no", str(folder)],
                   cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
                   capture_output=True, check=False)
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {f"{case.get('file')}::{case.get('name')}" for case in cases
              if case.find("failure") is not None or case.find("error") is not None}
    return failed, len(cases)


def test_one_digit_altered_in_any_compared_output_fails_that_cell_and_no_other(tmp_path):
    expected = altered_copies(tmp_path)
    failed, ran = nbval(tmp_path)
    assert failed - expected == set(), "these fail as they are"
    assert expected - failed == set(), "these were altered and nobody noticed"
    assert ran > len(expected) > 0


def test_altered_digit_is_never_one_that_nbval_overlooks():
    seconds = [(r"\bin \d+\.\d s\b", "in TIME")]
    assert alter("step 7 in 1.3 s", seconds) == "step 8 in 1.3 s"
    assert alter("step 9 in 1.3 s", ()) == "step 9 in 1.4 s"
    assert alter("in 1.3 s", seconds) is None
    assert alter("no number", seconds) is None


def test_nbval_overlooks_nothing_that_no_page_shows():
    shown = "\n".join(text(cell) for page in notebook_rules.book() for _, cell in page.code)
    assert [regex for regex, _ in PATTERNS if not re.search(regex, shown)] == []
