"""The setup cell finds the course, fetches it on Colab, and says plainly when it cannot."""

import os
import re
import subprocess
import sys

import pytest
from notebook_page import ROOT

from scripts import address, colab

CELL = (ROOT / "scripts" / "setup_cell.py").read_text(encoding="utf-8")
WHERE = "\nimport utils, sys\nprint(utils.__file__, file=sys.stderr)"


def run(folder, source=CELL + WHERE, variables=None, options=()):
    """Run source in ``folder`` with a clean path; return (exit status, stdout, stderr)."""
    clean = {key: value for key, value in os.environ.items()
             if key != "PYTHONPATH" and not key.startswith("GIT_")}
    done = subprocess.run([sys.executable, *options, "-c", source], cwd=folder, text=True,
                          env=clean | (variables or {}), capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.strip()


@pytest.fixture(scope="module")
def on_colab(tmp_path_factory):
    """Return the variables that make a process believe it is on Colab."""
    return colab.environment(tmp_path_factory.mktemp("colab"))


@pytest.mark.parametrize("folder", [".", "chapters", "chapters/1_one_head", "tests"])
def test_cell_finds_the_course_around_it_and_says_nothing(folder):
    assert run(ROOT / folder) == (0, "", str(ROOT / "utils" / "__init__.py"))


def test_cell_finds_a_clone_beside_the_notebook(tmp_path):
    (tmp_path / "one-equation-many-programs").symlink_to(ROOT, target_is_directory=True)
    source = CELL.replace(address.current()[0], "https://github.com/a/one-equation-many-programs")
    status, out, _ = run(tmp_path, source + WHERE)
    assert (status, out) == (0, "")


def test_cell_leaves_one_name_behind():
    source = f"before = {{*globals(), 'before'}}\n{CELL}\nprint(*set(globals()) - before)"
    assert run(ROOT, source)[1] == "find_course\n"


def test_notebook_alone_asks_for_the_course_with_the_command_that_fetches_it(tmp_path):
    status, _, error = run(tmp_path)
    url, ref = address.current()
    assert status == 1
    assert error.endswith("AssertionError: this notebook needs the course around it; "
                          f"git clone -q --depth=1 --branch={ref} {url}")


def test_cell_fetches_the_course_on_colab_once(tmp_path, on_colab):
    status, out, where = run(tmp_path, variables=on_colab)
    name = address.current()[0].rpartition("/")[2]
    assert (status, out, where) == (0, "", str(tmp_path / name / "utils" / "__init__.py"))
    # Again, as after a restart: nothing is fetched, so an address leading nowhere does not matter.
    nowhere = on_colab | {"GIT_CONFIG_KEY_0": "url.file:///nowhere.insteadOf"}
    assert run(tmp_path, variables=nowhere) == (status, out, where)


def test_cell_repeats_what_git_says_when_it_cannot_fetch(tmp_path, on_colab):
    nowhere = on_colab | {"GIT_CONFIG_KEY_0": "url.file:///nowhere.insteadOf"}
    status, _, error = run(tmp_path, variables=nowhere)
    assert status == 1
    assert re.search(r"AssertionError: this notebook needs .*: .*nowhere.*does not", error)


@pytest.mark.parametrize("file", ["utils/__init__.py", "utils.py", "utils/other.py"],
                         ids=["package", "module", "folder without a file"])
def test_cell_refuses_utils_imported_from_elsewhere(tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    status, _, error = run(ROOT, "import utils\n" + CELL, {"PYTHONPATH": str(tmp_path)},
                           options=("-P",))
    where = "(no file)" if file.endswith("other.py") else str(tmp_path / file)
    assert status == 1
    assert "ImportError: `utils` was imported from" in error
    assert where in error
    assert f"not from {ROOT}: restart the kernel" in error


def test_cell_is_short_enough_to_be_read():
    assert len(CELL.splitlines()) <= 12


def test_utils_of_the_course_comes_before_another_on_the_path(tmp_path):
    (tmp_path / "utils.py").write_text("raise SystemExit('the other one')")
    assert run(ROOT / "chapters", variables={"PYTHONPATH": str(tmp_path)}) == (
        0, "", str(ROOT / "utils" / "__init__.py"))
