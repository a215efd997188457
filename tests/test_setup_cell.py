"""The setup cell finds the course, fetches it on Colab, and says plainly when it cannot."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from notebook_page import ROOT

from scripts import address, colab
from utils import setup

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


@pytest.mark.parametrize("options", [(), ("-S",)], ids=["with google.protobuf", "without google"])
def test_notebook_alone_asks_for_the_course_with_the_command_that_fetches_it(tmp_path, options):
    (tmp_path / "google" / "cloud").mkdir(parents=True)
    variables = {} if options else {"PYTHONPATH": str(tmp_path)}
    folder = tmp_path / "alone"
    folder.mkdir()
    status, _, error = run(folder, variables=variables, options=options)
    url, ref = address.current()
    assert status == 1
    assert "ModuleNotFoundError: this notebook needs the course around it" in error
    assert f"git clone -q --depth=1 --branch={ref} {url}\n" in error


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
    assert re.search(r"RuntimeError: could not fetch the course: .*nowhere.*does not", error)


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


def test_utils_of_the_course_comes_before_another_on_the_path(tmp_path):
    (tmp_path / "utils.py").write_text("raise SystemExit('the other one')")
    assert run(ROOT, variables={"PYTHONPATH": str(tmp_path)}) == (
        0, "", str(ROOT / "utils" / "__init__.py"))


def versions(monkeypatch, **have):
    """Pretend that exactly these packages are installed."""
    monkeypatch.setattr(setup, "installed",
                        lambda name: (name, have[name]) if name in have else None)


def test_ready_says_nothing_when_all_is_well(capsys):
    setup.ready()
    assert capsys.readouterr().out == ""


def test_ready_names_an_older_version_and_the_line_that_mends_it(monkeypatch, capsys):
    versions(monkeypatch, numpy="1.26.4", torch="2.11.0+cu128")
    setup.ready({"numpy": "2.1.3", "torch": "2.11.0"})
    assert capsys.readouterr().out == (
        "numpy 1.26.4 is older than 2.1.3, the oldest supported: "
        "pip install --upgrade numpy, then restart the kernel\n")


def test_ready_installs_nothing_on_a_reader_s_own_machine(monkeypatch, capsys):
    versions(monkeypatch, numpy="2.4.6")
    monkeypatch.setattr(setup, "on_colab", lambda: False)
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    setup.ready({"numpy": "2.1.3", "keras": "3.13.2"})
    assert capsys.readouterr().out == (
        "not installed: keras (pages that use it will stop there): pip install keras\n")


def test_ready_installs_on_colab_only_what_is_missing_and_keeps_the_rest(monkeypatch, capsys):
    versions(monkeypatch, numpy="2.1.3", torch="2.11.0+cu128")
    monkeypatch.setattr(setup, "on_colab", lambda: True)
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append(command)
                        or SimpleNamespace(returncode=0))
    setup.ready({"numpy": "2.1.3", "keras": "3.13.2", "torch": "2.11.0"})
    assert [command[1:] for command in asked] == [
        ["-m", "pip", "install", "--quiet", "keras", "numpy==2.1.3", "torch==2.11.0+cu128"]]
    assert capsys.readouterr().out == ""


def test_ready_repeats_what_pip_says_when_it_fails(monkeypatch):
    versions(monkeypatch)
    monkeypatch.setattr(setup, "on_colab", lambda: True)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(
        returncode=1, stderr="No matching distribution\n"))
    with pytest.raises(RuntimeError, match=r"^could not install keras: No matching distribution$"):
        setup.ready({"keras": "3.13.2"})


def test_on_colab_is_not_fooled_by_other_packages_of_google(on_colab):
    ask = "from utils import setup; print(setup.on_colab())"
    assert run(ROOT, ask)[1] == "False\n"
    assert run(ROOT, ask, options=("-S",))[1] == "False\n"
    assert run(ROOT, ask, on_colab)[1] == "True\n"


@pytest.mark.parametrize(("text", "expected"), [
    ("2.13.0+cpu", (2, 13, 0)), ("2.2.0rc1", (2, 2, 0)), ("4.67", (4, 67)), ("3.10.0", (3, 10, 0))])
def test_versions_compare_as_numbers(text, expected):
    assert setup.numbers(text) == expected


def test_installed_knows_both_names_of_tensorflow(monkeypatch):
    def only_cpu(name):
        if name != "tensorflow-cpu":
            raise setup.metadata.PackageNotFoundError(name)
        return "2.20.0"
    monkeypatch.setattr(setup.metadata, "version", only_cpu)
    assert setup.installed("tensorflow") == ("tensorflow-cpu", "2.20.0")
    assert setup.installed("numpy") is None


def pins(name):
    """Return the versions that a requirements file pins, package -> version."""
    return dict(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE))


def test_floors_are_the_versions_of_colab():
    ours, theirs = pins("requirements.txt"), pins("requirements-colab.txt")
    for name, floor in setup.FLOORS.items():
        assert setup.numbers(floor) <= setup.numbers(ours[name])
        if name != "torch":
            assert floor == theirs[name]


def test_every_package_of_colab_s_list_that_pages_import_has_a_floor():
    pinned = set(pins("requirements-colab.txt")) - {"ipykernel", "tensorflow-cpu"}
    assert pinned == set(setup.FLOORS)
