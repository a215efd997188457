"""The commands and the lines with which a reader examines a program of another project.

They are taken from the page itself, and only the paths in them are replaced.
"""

import json
import re
import subprocess
import sys

import pytest
from notebook_page import ROOT

PAGE = ROOT / "chapters/7_field_guide/examine_your_own.ipynb"
TEXT = "".join("".join(cell["source"]) for cell in json.loads(PAGE.read_text("utf-8"))["cells"]
               if cell["cell_type"] == "markdown")
(COMMAND,) = re.findall(r"```sh\n(.*?)\n```", TEXT)
(IMPORT,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
MODEL = """import torch
from helpers import scale

def attend(q, k, v):
    return torch.softmax(scale(q) * q @ k.mT, dim=1) @ v
"""
HELPERS = "def scale(q):\n    return q.shape[-1] ** -0.5\n"
FAULT = "attend is sick: softmax over heads."


@pytest.fixture(params=["helpers", "utils.helpers"])
def project(request, tmp_path):
    """Return the folder of a project; one of the two has a package ``utils`` of its own."""
    file = tmp_path.joinpath(*request.param.split(".")).with_suffix(".py")
    file.parent.mkdir(exist_ok=True)
    file.with_name("__init__.py").write_text("")
    file.write_text(HELPERS)
    (tmp_path / "model.py").write_text(MODEL.replace("helpers", request.param))
    return tmp_path


def run(folder, *words):
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False,
                          encoding="utf-8", stdin=subprocess.DEVNULL)


def test_the_command_of_the_page_examines_a_file_in_another_folder(project):
    python, *words = COMMAND.replace("/path/to", str(project)).split()
    assert python == ".venv/bin/python"
    done = run(ROOT, sys.executable, *words)
    assert done.returncode == 1
    assert done.stdout.startswith(FAULT)


def test_the_command_of_the_front_page_is_the_same():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert COMMAND.replace("attend", "MyAttention") in readme


def test_the_lines_of_the_page_import_the_doctor_in_another_folder(project):
    lines = IMPORT.replace("/path/to/the_course", str(ROOT))
    assert str(ROOT) in lines
    test = project / "test_it.py"
    test.write_text(lines + "from model import attend\nprint(examine(attend))\n")
    done = run(project, sys.executable, str(test))
    if (project / "utils").exists():  # the page says that these need the command
        assert "No module named 'utils.doctor'" in done.stderr
    else:
        assert done.stdout.startswith(FAULT)
