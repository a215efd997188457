"""The command on files of a project: its own ``utils``, relative imports, a script that trains.

Each convention in which people write attention is examined as a user would, without an option.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import door_programs
import pytest
from test_door import VERDICTS

from utils import setup
from utils.doctor import Report, _child, command

pytestmark = pytest.mark.slow

HEAD = '''
import wandb                         # is not installed
from utils import ROOT_OF_SCALE      # the project's own
from .helpers import halved
'''
TAIL = '''
wandb.init(project="attention")
open("trained.txt", "w").write("training has begun")
while True:
    pass
'''
FURTHER = '''

class SequenceFirst(nn.Module):
    """x is (i, b, d); it uses the helpers of its project."""

    def __init__(self, args):
        super().__init__()
        self.args, self.heads = args, args["num_heads"]
        self.packed = nn.Linear(args["hidden_size"], 3 * args["hidden_size"])
        self.out_proj = nn.Linear(args["hidden_size"], args["hidden_size"])

    def forward(self, src):
        q, k, v = (side.unflatten(-1, (self.heads, -1)) for side in
                   self.packed(src).chunk(3, dim=-1))
        scores = torch.einsum("ibhd,jbhd->bhij", q, k) / q.shape[-1] ** (halved(1) * ROOT_OF_SCALE)
        context = torch.einsum("bhij,jbhd->ibhd", scores.softmax(dim=-1), v)
        return self.out_proj(context.flatten(2)), scores, None


class Residual(SequenceFirst):
    """A LayerNorm stands after the sum."""

    def __init__(self, args):
        super().__init__(args)
        self.norm = nn.LayerNorm(args["hidden_size"])

    def forward(self, src):
        return self.norm(src + super().forward(src)[0])


class ByHand:
    """Its weights are arrays."""

    def __init__(self, d_model, n_heads):
        self.heads = n_heads
        self.Wq, self.Wk, self.Wv, self.Wo = np.random.randn(4, d_model, d_model)

    def forward(self, x):
        q, k, v = (np.stack(np.split(x @ w, self.heads, axis=-1), axis=1)
                   for w in (self.Wq, self.Wk, self.Wv))
        scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
        exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = exps / exps.sum(axis=-1, keepdims=True) @ v
        return np.concatenate([*context.swapaxes(0, 1)], axis=-1) @ self.Wo


def of_weights(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    return (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=-1) @ v


built = HeadsFirst(4, 24)
'''
KERAS = '''
import keras
from utils import ROOT_OF_SCALE
from .helpers import halved


class Attention(keras.layers.Layer):
    def __init__(self, units, num_heads, **more):
        super().__init__(**more)
        self.heads = num_heads
        self.wq, self.wk, self.wv, self.dense = (keras.layers.Dense(units) for _ in range(4))

    def call(self, query, value, mask=None):
        ops = keras.ops
        sides = self.wq(query), self.wk(value), self.wv(value)
        q, k, v = (ops.transpose(ops.reshape(side, (ops.shape(side)[0], -1, self.heads,
                   side.shape[-1] // self.heads)), (0, 2, 1, 3)) for side in sides)
        scores = q @ ops.transpose(k, (0, 1, 3, 2)) * q.shape[-1] ** -halved(1)
        if mask is not None:
            scores = ops.where(mask, scores, -1e9)
        context = ops.transpose(ops.softmax(scores) @ v, (0, 2, 1, 3))
        return self.dense(ops.reshape(context, (ops.shape(query)[0], -1, q.shape[1] * q.shape[3])))


while True:
    pass
'''
MORE = {"SequenceFirst": "with the sequence first, x (i, b, d)",
        "Residual": "around the attention: x is added at the end, a LayerNorm last",
        "ByHand": "Built as ByHand(d_model=12, n_heads=3), forward is called as (x)",
        "of_weights": "It is called as (x)", "built": "HeadsFirst has d_model = 24 and 4 heads"}
CONVENTIONS = {name: (bool(faults), words) for name, (faults, words) in VERDICTS.items()}
CONVENTIONS |= {name: (False, words) for name, words in MORE.items()}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a folder with a project: a package, and beside it the project's own ``utils``."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text("[project]\nname = 'theirs'\n")
    (folder / "utils.py").write_text("ROOT_OF_SCALE = 1.0\n")
    package = folder / "model"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('nothing is imported from here')\n")
    (package / "helpers.py").write_text("def halved(n):\n    return n / 2\n")
    body = Path(door_programs.__file__).read_text("utf-8") + FURTHER
    (package / "attention.py").write_text(body.replace("import torch\n", "import torch\n" + HEAD, 1)
                                          + TAIL)
    (package / "in_keras.py").write_text(KERAS)
    cells = [{"cell_type": "code", "source": [body]}, {"cell_type": "code", "source": [TAIL]}]
    (folder / "lesson.ipynb").write_text(json.dumps({"cells": cells}))
    return folder


def examined(project, target):
    """Return (exit status, what is printed) of the command."""
    found = subprocess.run(
        [sys.executable, "-m", "utils.doctor", target], cwd=setup.COURSE, capture_output=True,
        text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert "Traceback" not in found.stderr
    assert not (project / "trained.txt").exists()
    return found.returncode, " ".join(found.stdout.split())


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_convention_is_understood_by_the_command(project, name):
    sick, words = CONVENTIONS[name]
    status, text = examined(project, f"{project}/model/attention.py:{name}")
    assert (status, words in text) == (int(sick), True), text


def test_a_keras_layer_and_a_notebook_are_understood_by_the_command(project):
    status, text = examined(project, f"{project}/model/in_keras.py:Attention")
    assert (status, "called as (query=q, value=v, mask)" in text) == (0, True), text
    status, text = examined(project, f"{project}/lesson.ipynb:Unscaled")
    assert (status, "Unscaled is sick: no scale." in text) == (1, True), text


def test_where_it_must_ask_the_code_and_the_command_fit_the_program(project):
    status, text = examined(project, f"{project}/model/attention.py:Strange")
    assert status == 2
    assert "return Strange(d_model=d_model, n_heads=n_heads, temperature_schedule=...)" in text
    assert f"python -m utils.doctor {project}/model/attention.py:build --call call" in text


@pytest.mark.parametrize(("then", "words"), [
    ("examine(kernel)", "python -m utils.doctor a.py:kernel"),
    ('examine(build, call=call, self_attention=True, masks="none")',
     "python -m utils.doctor a.py:build --call call --self-attention --masks none"), ("", "")])
def test_a_call_is_spelled_as_a_shell_spells_it(then, words):
    assert command.in_shell(then, Path("a.py")) == words


def test_a_mistake_of_the_doctor_is_told_apart_from_one_of_the_program(project, monkeypatch):
    def broken(*args, **options):
        return {}["missing"]

    monkeypatch.setattr(_child._examine, "examine", broken)
    report = _child.examined(project / "model/attention.py", "Torn", {})
    assert report.headline == "it raises KeyError."  # raised in a test, which is not the doctor
    monkeypatch.setattr(_child, "DOCTOR", Path(__file__).parent)
    report = _child.examined(project / "model/attention.py", "Torn", {})
    assert report.headline.startswith("this is a mistake of the doctor, and not of the program: "
                                      "KeyError: 'missing' (tests/doctor/test_command_door.py, ")


def test_control_characters_of_foreign_text_are_escaped():
    report = Report("f\x1b[31m", "kernel", "sick", "it raises ValueError: \x07bell\u202e.",
                    adapter="def kernel():\n    return f()", then="examine(kernel)")
    assert str(report).isascii()
    assert all(c.isprintable() or c == "\n" for c in str(report))
    assert r"f\x1b[31m is sick: it raises ValueError: \x07bell\u202e." in str(report)
    assert "    return f()\n" in str(report)
