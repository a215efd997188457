"""Nobody can change a number on a page without a test that fails: nbval compares every output."""

import os
import re
import subprocess
import sys

import nbformat
import notebook_rules
import pytest
from nbval.plugin import get_sanitize_patterns
from notebook_page import ROOT, data, text

from scripts import execute

PATTERNS = get_sanitize_patterns((ROOT / "tests" / "nbval_sanitize.cfg").read_text("utf-8"))
# One cell for each way in which a page shows a number; the last figure holds parameters, too.
SHOWN = ["print(17)", "17", "from IPython.display import Markdown; Markdown('17')",
         "from IPython.display import HTML; HTML('<b>17</b>')",
         "HTML('<div data-config=\"17\" data-weights=\"AAAA\"></div>')", "raise ValueError(17)"]


def executed(path):
    """Write a notebook of SHOWN to ``path``, and its outputs as `make execute` stores them."""
    cells = [nbformat.v4.new_code_cell(source) for source in SHOWN]
    cells[-1].metadata["tags"] = ["raises-exception"]
    nb = nbformat.v4.new_notebook(cells=cells)
    subprocess.run([sys.executable, "-m", "jupyter", "execute", "--inplace", "--allow-errors",
                    str(path)], input=nbformat.write(nb, path), check=True, capture_output=True)
    nb = execute.normalise(nbformat.read(path, as_version=4))
    nbformat.write(nb, path)
    return nb


def failed(path):
    """Return the numbers of the cells whose outputs nbval, as the Makefile calls it, refuses."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "tests" / "nbval.ini"), "-n", "0", "-rf",
         f"--rootdir={path.parent}", "-p", "no:cacheprovider", "--tb=no", str(path)],
        cwd=ROOT, env=os.environ | {"TERM": "dumb"}, capture_output=True, text=True, check=False)
    return {int(n) for n in re.findall(r"^FAILED .*::Cell (\d+)", done.stdout, re.MULTILINE)}


@pytest.mark.slow
def test_one_digit_altered_in_any_kind_of_output_fails_that_cell_and_no_other(tmp_path):
    nb = executed(tmp_path / "page.ipynb")
    assert failed(tmp_path / "page.ipynb") == set()
    assert "AAAA" not in "".join(cell.outputs[0].get("data", {}).get("text/html", "")
                                 for cell in nb.cells)
    for cell in nb.cells:
        bundle = cell.outputs[0].get("data", cell.outputs[0])
        for key in ("text", "text/plain", "text/markdown", "text/html", "evalue"):
            if "17" in bundle.get(key, ""):
                bundle[key] = bundle[key].replace("17", "18")
    nbformat.write(nb, tmp_path / "altered.ipynb")
    assert failed(tmp_path / "altered.ipynb") == set(range(len(SHOWN)))


def test_nbval_overlooks_nothing_that_no_page_shows():
    code = [cell for page in notebook_rules.book() for _, cell in page.code]
    shown = "\n".join([*map(text, code), *(bundle.get("text/html", "") for cell in code
                                           for bundle in data(cell))])
    assert [regex for regex, _ in PATTERNS if not re.search(regex, shown)] == []
