"""The doctor in a shell: another process runs the reader's file, and nothing else does."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from utils import setup
from utils.doctor import command

pytestmark = pytest.mark.slow

ROOT = setup.COURSE
SOURCE = '''
import os, sys, time
import numpy as np
from utils.beside import softmax
import sibling

print("loud while imported", flush=True)
here = open("seen.txt", "a").write(f"{os.getcwd()} {os.getpid()}\\n")
trained = 1 / 0


def healthy(q, k, v, keep, scale=None, written=here):
    print("loud when called")
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = softmax(scores if keep is None else np.where(keep, scores, -np.inf))
    return np.where(np.isnan(weights), 0.0, weights) @ v


def unscaled(q, k, v, keep):
    return healthy(q, k, v, keep, scale=1.0)


def causal(q, k, v, keep):
    triangle = np.tri(q.shape[2], k.shape[2], dtype=bool)
    return healthy(q, k, v, triangle if keep is None else triangle & keep)


def short(q, k, v, keep):
    return q[..., :1]


def not_a_number(q, k, v, keep):
    return healthy(q, k, v, keep) * np.nan


def in_a_list(q, k, v, keep):
    return healthy(q, k, v, keep).tolist()


def hangs(q, k, v, keep):
    child = os.fork()
    if not child:
        os.setsid()
    open("pids.txt", "a").write(f"{os.getpid()}\\n")
    while True:
        time.sleep(0.05)


def leaves(q, k, v, keep):
    os._exit(0)


def dies(q, k, v, keep):
    os.abort()


def interrupts(q, k, v, keep):
    raise KeyboardInterrupt


def asks(q, k, v, keep):
    return input("which? ")


class Layer:
    heads = [1, 2]

    @staticmethod
    def attention(q, k, v, keep):
        return healthy(q, k, v, keep)


def decoder(q, k, v, cache):
    return causal(q, k, v, None), cache


number = 3
'''
MODULE = '''
import torch
from torch.nn import functional as F


class Attention(torch.nn.Module):
    def __init__(self, e, h):
        super().__init__()
        self.h = h
        self.a, self.b, self.c, self.d = (torch.nn.Linear(e, e) for _ in range(4))

    def forward(self, x, memory, keep=None):
        q, k, v = (f(s).unflatten(-1, (self.h, -1)).transpose(1, 2)
                   for f, s in ((self.a, x), (self.b, memory), (self.c, memory)))
        return self.d(F.scaled_dot_product_attention(q, k, v, keep).reshape(x.shape))


def call(module, x, memory, keep):
    return module(x, memory, keep)


def build(d_model, n_heads):
    return Attention(d_model, n_heads)


built = Attention(12, 3)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the reader's files."""
    path = tmp_path_factory.mktemp("reader")
    (path / "programs.py").write_text(SOURCE)
    (path / "modules.py").write_text(MODULE)
    (path / "sibling.py").write_text("")
    (path / "utils").mkdir()
    (path / "utils" / "beside.py").write_text(
        "import numpy as np\n\n\ndef softmax(scores):\n    with np.errstate(all='ignore'):\n"
        "        exps = np.exp(scores - scores.max(-1, keepdims=True))\n"
        "        return exps / exps.sum(-1, keepdims=True)\n")
    (path / "threads.py").write_text(
        "import threading, time\n\n\ndef watch():\n    while True:\n        time.sleep(0.05)\n"
        "\n\ndef attention(q, k, v, keep):\n    threading.Thread(target=watch).start()\n"
        "    return q[..., :1]\n")
    (path / "broken.py").write_text("def f(:\n    pass\n")
    (path / "fails.py").write_text("import sys\n\n\n@sys.exit('not today')\ndef f():\n    pass\n")
    (path / "needs.py").write_text("import no_such_package\n\n\ndef f(q, k, v, keep):\n"
                                   "    return no_such_package.attention(q, k, v)\n")
    return path


def shell(folder, *arguments):
    """Return (status, stdout) of the doctor in a shell, in the reader's folder."""
    done = subprocess.run(
        [sys.executable, "-m", "utils.doctor", *arguments], cwd=folder, capture_output=True,
        text=True, encoding="utf-8", stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"})
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr == "" or done.returncode == 2
    return done.returncode, done.stdout + done.stderr


def report(folder, target, **options):
    """Return the Report of the command, without the shell around it."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return command.report_on(target, options, options.pop("seconds", 60))
    finally:
        os.chdir(before)


# --- the whole of it

def test_a_sick_program_is_told_as_text_and_as_json_without_what_it_prints(folder):
    status, text = shell(folder, "programs.py:unscaled")
    assert status == 1
    assert text.startswith("unscaled is sick: no scale. The scores are not divided by √d, so")
    status, text = shell(folder, "programs.py:unscaled", "--json")
    assert (status, json.loads(text)["names"]) == (1, [["no scale"]])


def test_a_healthy_program_gives_zero_and_ran_in_another_process_in_the_same_folder(folder):
    (folder / "seen.txt").unlink(missing_ok=True)
    status, text = shell(folder, "programs.py:healthy")
    assert (status, text.splitlines()[0]) == (0, "healthy is healthy: it equals the reference.")
    (cwd, pid), = (line.split() for line in (folder / "seen.txt").read_text().splitlines())
    assert Path(cwd) == folder
    assert int(pid) != os.getpid()


@pytest.mark.parametrize(("arguments", "words"), [
    (("programs.py:healthy", "--level", "x"), "argument --level: invalid choice: 'x'"),
    (("programs.py:healthy", "--roles", "q"), "expected q=NAME,k=NAME,v=NAME,o=NAME, got 'q'")])
def test_unknown_arguments_raise_an_error_in_a_sentence(folder, arguments, words):
    status, text = shell(folder, *arguments)
    assert status == 2
    assert words in text
    assert text.endswith("; --help lists the options.\n")
    assert text.count("\n") == 1


# --- what it says

ROLES = tuple(zip("qkvo", "abcd", strict=True))
TORN = "merge without transpose. The context of the heads is reshaped"
CASES = {
    ("programs.py", "causal", ("causal", True)): ("healthy", "it equals the reference."),
    ("programs.py", "causal", ("causal", "top_left"), ("fully_masked", "nan")): (
        "sick", "a fully masked row gets zeros; expected NaN."),
    ("programs.py", "Layer.attention"): ("healthy", "it equals the reference."),
    ("programs.py", "short"): (
        "sick", "it returns shape (2, 3, 5, 1); expected the context (2, 3, 5, 6)."),
    ("programs.py", "not_a_number"): ("sick", "it gives NaN in 9 of 9 cases"),
    ("programs.py", "in_a_list"): ("sick", "it returns a list of length 2; expected an array."),
    ("programs.py", "decoder", ("level", "decode")): ("sick", "cache not appended, or "),
    ("programs.py", "asks"): ("could not examine", "it raises EOFError"),
    ("programs.py", "interrupts"): ("could not examine", "it raises KeyboardInterrupt."),
    ("programs.py", "nothing"): (
        "could not examine", "programs.py does not define nothing; it defines healthy, unscaled"),
    ("programs.py", "number"): (
        "could not examine", "number cannot be called: its type is int."),
    ("programs.py", "Layer.heads"): (
        "could not examine", "Layer.heads cannot be called: its type is list."),
    ("programs.py", "healthy", ("n_heads", 3)): (
        "could not examine", "n_heads is not an option of the level kernel, whose options are "),
    ("broken.py", "f"): ("could not examine", "broken.py is not Python: invalid syntax, line 1."),
    ("fails.py", "f"): ("could not examine", "it raises SystemExit."),
    ("needs.py", "f"): ("could not examine", "it needs no_such_package, which is not installed"),
    ("modules.py", "built", ("n_heads", 3), ("roles", ROLES)): ("sick", TORN),
    ("modules.py", "build", ("level", "layer"), ("call", "call")): ("sick", TORN),
    ("modules.py", "Attention"): ("sick", TORN),
    ("modules.py", "built"): ("sick", TORN)}  # it knows its number of heads
# The work of the other process, for all cases at once.
EXAMINE = """
import json, sys
from pathlib import Path
from utils.doctor import _child
reports = []
for file, name, *options in json.loads(sys.argv[1]):
    options = {key: dict(value) if key == "roles" else value for key, value in options}
    reports.append(_child.examined(Path(file).resolve(), name, options).to_dict())
Path("reports.json").write_text(json.dumps(reports))
"""


@pytest.fixture(scope="module")
def told(folder):
    """Return what is said in each of the CASES."""
    cases = json.dumps([*CASES])
    subprocess.run([sys.executable, "-c", EXAMINE, cases], cwd=folder, check=True,
                   capture_output=True, stdin=subprocess.DEVNULL,
                   env=os.environ | {"PYTHONPATH": str(ROOT)})
    return dict(zip(map(str, CASES), json.loads((folder / "reports.json").read_text()),
                    strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]} of {case[0]}")
def test_a_program_gets_its_verdict_in_a_sentence(told, case):
    found, (verdict, words) = told[str(case)], CASES[case]
    assert (found["program"], found["verdict"]) == (case[1], verdict)
    assert found["headline"].startswith(words)
    assert found["level"] == ("layer" if case[0] == "modules.py" else found["level"])


@pytest.mark.parametrize(("target", "words"), [
    ("missing.py:f", "there is no file missing.py."),
    ("programs.py", "the name of the program is missing; expected programs.py:NAME."),
    ("programs.py:", "the name of the program is missing; expected programs.py:NAME."),
    ("model.pkl:f",
     "the doctor runs Python source only; expected FILE.py:NAME or FILE.ipynb:NAME, got 'mo"),
    ("https://example.org/a.py:f", "the doctor opens no addresses; save the program as a file"),
    ("utils:f", "the doctor runs Python source only"),
    ("programs.py:leaves", "its process ended before the examination did."),
    ("programs.py:dies", "signal 6 ended its process.")])
def test_what_cannot_be_run_gets_a_sentence(folder, target, words):
    found = report(folder, target)
    assert found.verdict == "could not examine"
    assert found.headline.startswith(words)


def test_a_thread_that_goes_on_holds_nothing_up(folder):
    found = report(folder, "threads.py:attention", seconds=20)
    assert (found.verdict, found.headline) == (
        "sick", "it returns shape (2, 3, 5, 1); expected the context (2, 3, 5, 6).")


def test_a_program_that_hangs_is_ended_with_all_that_it_has_started(folder):
    found = report(folder, "programs.py:hangs", seconds=2)
    assert (found.verdict, found.headline) == (
        "could not examine", "it did not finish within 2 seconds; --seconds sets another limit.")
    pids = [int(pid) for pid in (folder / "pids.txt").read_text().split()]
    assert len(pids) == 2
    time.sleep(0.1)
    assert not any(alive(pid) for pid in pids)


def alive(pid):
    """Return whether a process runs; one that has ended may still be listed."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


# --- its parts

def test_every_verdict_has_its_status():
    assert command.STATUS == {
        "healthy": 0, "sick": 1, "could not examine": 2, "unexplained": 3}


def test_options_that_nobody_gives_are_left_out():
    parse = command.parser().parse_args
    assert vars(parse(["a.py:f"])) == {
        "target": "a.py:f", "json": False, "verbose": False, "seconds": 60.0}
    given = vars(parse(["a.py:f", "--causal", "top_left", "--sequence-first", "--seconds", "2",
                        "--roles", "q=a,o=b.c", "--fully-masked", "nan", "--n-heads", "3"]))
    assert given == {"target": "a.py:f", "json": False, "verbose": False, "seconds": 2.0,
                     "causal": "top_left", "batch_first": False, "roles": {"q": "a", "o": "b.c"},
                     "fully_masked": "nan", "n_heads": 3}
    assert parse(["a.py:f", "--causal"]).causal is True
    assert parse(["a.py:f", "--masks", "heads-alike"]).masks == "heads alike"


TORCH = """
import torch
from {helper} import scale


def attention(q, k, v, keep):
    scores = q @ k.mT * scale(q.shape[-1])
    return torch.softmax(scores if keep is None else scores.masked_fill(~keep, -1e9), -1) @ v
"""
HELPER = "def scale(d):\n    return d ** -0.5\n"


@pytest.mark.parametrize("helper", [".helper", "pack.inner.helper", "helper"])
def test_a_file_of_a_package_is_imported_under_its_dotted_name(tmp_path, helper):
    folder = tmp_path / "pack" / "inner"
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").touch()
    (folder / "helper.py").write_text(HELPER)
    (folder / "torch.py").write_text(TORCH.format(helper=helper))
    found = report(tmp_path, "pack/inner/torch.py:attention")
    assert (found.headline, found.verdict) == ("it equals the reference.", "healthy")


def test_a_class_of_a_notebook_is_examined(tmp_path):
    cells = ["!pip install torch\n%matplotlib inline", MODULE, "raise ValueError('this trains')"]
    (tmp_path / "lesson.ipynb").write_text(json.dumps({"cells": [
        {"cell_type": "code", "source": cell} for cell in cells]}))
    found = report(tmp_path, "lesson.ipynb:Attention")
    assert (found.verdict, found.headline[:len(TORN)]) == ("sick", TORN)


def test_a_file_of_the_course_is_imported_as_the_course_imports_it():
    found = report(ROOT, "utils/attention/torch.py:attention")
    assert (found.headline, found.verdict) == ("it equals the reference.", "healthy")


def test_a_file_with_the_name_of_an_installed_module_does_not_hide_it(tmp_path):
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "torch.py").write_text(TORCH.format(helper="helper"))
    found = report(tmp_path, "torch.py:attention")
    assert (found.headline, found.verdict) == ("it equals the reference.", "healthy")


def test_a_file_of_a_package_utils_with_a_name_of_the_course_is_the_readers(tmp_path):
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils" / "__init__.py").touch()
    (tmp_path / "utils" / "beside.py").write_text(HELPER)
    (tmp_path / "utils" / "masks.py").write_text(TORCH.format(helper=".beside"))
    found = report(tmp_path, "utils/masks.py:attention")
    assert (found.headline, found.verdict) == ("it equals the reference.", "healthy")
