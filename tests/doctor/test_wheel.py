"""The wheel: ``pip install`` puts the doctor, as ``one_equation``, into a project of anybody's.

What the page shows for the shell, for pytest and for a workflow is taken from the page and run.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from notebook_page import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

PAGE = ROOT / "chapters/7_field_guide/examine_your_own.ipynb"
TEXT = "".join("".join(cell["source"]) for cell in json.loads(PAGE.read_text("utf-8"))["cells"]
               if cell["cell_type"] == "markdown")
INSTALL, COMMAND = re.findall(r"```sh\n(.*?)\n```", TEXT)
(SUITE,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
WORKFLOW = re.findall(r"^- run: (.*)$", TEXT, re.MULTILINE)
NUMPY_KERNEL = """import numpy as np

def attend(q, k, v, mask=None):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v
"""
MODEL = """import torch
from torch import nn
from utils.shapes import split, merge

def attend(q, k, v):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1) @ v

def over_queries(q, k, v):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=1) @ v

class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (split(layer(x), self.n_heads)
                   for layer in (self.q_proj, self.k_proj, self.v_proj))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
        return self.out_proj(merge(weights @ v))

class Torn(Attention):
    def forward(self, x):
        q, k, v = (layer(x).view(len(x), self.n_heads, x.shape[1], -1)
                   for layer in (self.q_proj, self.k_proj, self.v_proj))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
        return self.out_proj(merge(weights @ v))
"""
SHAPES = """def split(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)

def merge(x):
    return x.transpose(1, 2).flatten(2)
"""
def run(*words, cwd, **environment):
    return subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True,
                          check=False, encoding="utf-8", stdin=subprocess.DEVNULL,
                          env=os.environ | {"OMP_NUM_THREADS": "1"} | environment)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Build the wheel of this checkout; return its path."""
    out = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps",
               "--no-build-isolation", "--wheel-dir", out, ROOT, cwd=out)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def numpy_only(wheel, tmp_path_factory):
    """Return the folder of programs of an environment with NumPy and the wheel alone."""
    home = tmp_path_factory.mktemp("numpy_only") / "venv"
    assert not run(sys.executable, "-m", "venv", home, cwd=home.parent).returncode
    programs = Path(sysconfig.get_path("scripts", vars={"base": str(home)}))
    (packages,) = home.glob("lib/*/site-packages")
    for part in Path(sysconfig.get_path("purelib")).glob("numpy*"):
        (packages / part.name).symlink_to(part)
    done = run(programs / "python", "-m", "pip", "install", "--quiet", "--no-index", wheel,
               cwd=home)
    assert done.returncode == 0, done.stderr
    return programs


@pytest.fixture
def project(tmp_path):
    """Return a project that has a ``utils``, a ``tests`` and a ``conftest.py`` of its own."""
    for name, text in {"kernel.py": NUMPY_KERNEL, "model.py": MODEL, "utils/__init__.py": "",
                       "utils/shapes.py": SHAPES, "conftest.py": "", "tests/test_model.py": SUITE,
                       "no_scale.py": NUMPY_KERNEL.replace(" / np.sqrt(q.shape[-1])", "")}.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return tmp_path


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """Return a folder with the wheel's package, to be put beside this environment's packages."""
    out = tmp_path_factory.mktemp("installed")
    done = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", out,
               wheel, cwd=out)
    assert done.returncode == 0, done.stderr
    return out


def test_with_numpy_alone_a_kernel_of_numpy_is_examined(numpy_only, project):
    listed = run(numpy_only / "python", "-m", "pip", "list", "--format=freeze", cwd=project).stdout
    assert not re.search("^(torch|tensorflow|jax|matplotlib|pytest)", listed, re.MULTILINE)
    right = run(numpy_only / "attention-doctor", "kernel.py:attend", cwd=project)
    assert (right.returncode, right.stderr) == (0, "")
    assert right.stdout.startswith("attend is healthy")
    wrong = run(numpy_only / "attention-doctor", "no_scale.py:attend", cwd=project)
    assert wrong.returncode == 1
    assert wrong.stdout.startswith("attend is sick: no scale.")


def test_with_numpy_alone_its_help_names_the_command_and_its_functions_are_there(
        numpy_only, project):
    said = run(numpy_only / "attention-doctor", "--help", cwd=project).stdout
    assert "attention-doctor model.py:MultiHeadAttention" in said
    assert "utils" not in said
    done = run(numpy_only / "python", "-c",
               "from one_equation.doctor import assert_healthy; from kernel import attend; "
               "import sys; assert_healthy(attend); print(*sys.modules)", cwd=project)
    assert done.returncode == 0, done.stderr
    assert not {"torch", "tensorflow", "jax", "matplotlib", "utils"} & {*done.stdout.split()}


def test_beside_torch_a_class_of_a_project_with_its_own_utils_is_examined(installed, project):
    for name, status, verdict in (("Attention", 0, "healthy"),
                                  ("Torn", 1, "sick: split without transpose")):
        done = run(installed / "bin/attention-doctor", f"model.py:{name}", cwd=project,
                   PYTHONPATH=str(installed))
        assert (done.returncode, done.stderr) == (status, "")
        assert done.stdout.startswith(f"{name} is {verdict}")


def test_the_suite_of_the_page_passes_and_prints_the_report_on_what_is_not_healthy(
        installed, project):
    paths = os.pathsep.join([str(installed), str(project)])
    for name, outcome in (("attend", "1 passed"), ("over_queries", "1 failed")):
        text = SUITE.replace("import attend", f"import {name} as attend")
        (project / "tests/test_model.py").write_text(text)
        done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project,
                   PYTHONPATH=paths)
        assert outcome in done.stdout, done.stdout + done.stderr
    assert "over_queries is sick: softmax over queries" in done.stdout
    assert "test_model.py:7: AssertionError" in done.stdout  # the reader's line, and none of ours


def test_the_command_of_the_page_examines_and_the_workflow_is_the_same(installed, project):
    program, target = COMMAND.split()
    done = run(installed / "bin" / program, target, cwd=project, PYTHONPATH=str(installed))
    assert (done.returncode, done.stderr) == (0, "")
    assert WORKFLOW == [INSTALL, COMMAND]
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"`{INSTALL}`" in readme
    assert f"`{COMMAND.replace('attend', 'MyAttention')}`" in readme


def test_without_torch_a_program_of_torch_is_told_so(numpy_only, project):
    (project / "utils/shapes.py").unlink()
    for name in ("attend", "Attention"):
        done = run(numpy_only / "attention-doctor", f"model.py:{name}", cwd=project)
        assert done.returncode == 2
        assert "torch, which is not installed" in " ".join(done.stdout.split())
