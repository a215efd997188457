"""Of a file, only what a definition needs is run, and nothing absent stops it."""

import json

import pytest

from utils.source import reading
from utils.source.reading import RefusalError


@pytest.fixture
def project(tmp_path):
    """Return a function that writes files, {path: text}, and reads the first of them."""
    def made(files, first=None):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return reading.read(tmp_path / (first or next(iter(files))))
    return made


def test_only_what_a_definition_needs_is_run(project):
    module = project({"mine.py": """
import math
data = open("nowhere.csv").read()
raise SystemExit("a script")
SCALE = 2
UNUSED = 1 / 0
SCALE = SCALE + 1


def inner(n):
    return outer(n - 1) if n else SCALE


def outer(n):
    return inner(n)


if __name__ == "__main__":
    SCALE = 100
"""})
    assert module.inner(3) == 3
    assert "UNUSED" not in vars(module)
    assert "math" not in vars(module)
    assert not hasattr(module, "nothing")


def test_what_changes_a_definition_belongs_to_it_and_the_last_one_counts(project):
    module = project({"mine.py": """
def attention():
    return "first"


class Attention:
    heads = 1


def attention():
    return Attention.heads


Attention.heads = 4
"""})
    assert module.attention() == 4


@pytest.mark.parametrize("line", [
    "from .parts import scale", "from . import parts\nscale = parts.scale",
    "from pack.parts import scale", "import pack.parts\nscale = pack.parts.scale",
    "import pack.parts as other\nscale = other.scale", "from parts import scale",
    "from .parts import *", "from ..pack.parts import scale"])
def test_files_of_the_project_are_found_however_they_are_named(project, line):
    module = project({"pack/mine.py": f"{line}\n\n\ndef f():\n    return scale(3)\n",
                      "pack/__init__.py": "raise RuntimeError('this trains')",
                      "pack/parts.py": "import absent_module\n1 / 0\n\n\ndef scale(n):\n"
                                       "    return half(n)\n\n\ndef half(n):\n    return n / 2\n",
                      "setup.py": ""})
    assert module.f() == 1.5


def test_a_name_of_the_package_itself_is_found(project):
    module = project({"pack/mine.py": "from . import HEADS\n\n\ndef f():\n    return HEADS\n",
                      "pack/__init__.py": "import absent_module\nHEADS = 7\n"})
    assert module.f() == 7


@pytest.mark.parametrize("files", [
    {"utils.py": "def helper():\n    return 5\n"},
    {"utils/__init__.py": "from .beside import helper\n",
     "utils/beside.py": "def helper():\n    return 5\n"},
    {"utils/masks.py": "", "utils/__init__.py": "def helper():\n    return 5\n"}])
def test_a_module_utils_of_the_reader_is_not_the_course_s(project, files):
    import utils
    line = "from utils import helper"
    module = project({"mine.py": f"{line}\n\n\ndef f():\n    {line}\n    return helper()\n",
                      **files})
    assert module.f() == 5
    assert utils is __import__("utils")
    assert not hasattr(utils, "helper")


def test_what_is_absent_is_named_when_it_is_used(project):
    module = project({"mine.py": """
import torch.nn as nn
import absent_module as absent
from absent_module.layers import LightningModule, register, fast
from utils import nothing_here
from annotated import Float
table = open("nowhere.csv").read()


@register
class Layer(LightningModule):
    def __init__(self, width: Float[int, "1"] = 3):
        super().__init__()
        self.width = width

    def forward(self, x):
        return x + self.width

    def slow(self, x):
        return absent.fast(x)

    def read(self):
        return table()
"""})
    layer = module.Layer()
    assert layer(2) == 5
    for call, words in ((lambda: layer.slow(1), "needs absent_module, which is not installed "
                         "(mine.py, line 3)"),
                        (layer.read, "needs line 7 of mine.py, which raises FileNotFoundError: ")):
        with pytest.raises(RefusalError) as caught:
            call()
        assert str(caught.value).startswith(words)


def test_a_definition_that_fails_is_told_with_its_line(project):
    module = project({"mine.py": "\n\nclass Layer(1 / 0):\n    pass\n"})
    with pytest.raises(RefusalError, match=r"^mine\.py, line 3, raises ZeroDivisionError"):
        module.Layer  # noqa: B018


def test_an_import_that_may_fail_is_run_as_it_stands(project):
    module = project({"mine.py": "try:\n    import absent_module\n    fast = True\n"
                                 "except ImportError:\n    fast = False\n\n\n"
                                 "def f():\n    return fast\n"})
    assert module.f() is False


def test_a_notebook_is_read_without_what_only_jupyter_understands(project):
    cells = ["%matplotlib inline\n!pip install torch\nimport math", "%%time\nraise ValueError",
             "def f(n):\n    return 1", "train(f)", "def f(n):\n    return math.sqrt(n)"]
    book = {"cells": [{"cell_type": "code", "source": cell.splitlines(True)} for cell in cells]
            + [{"cell_type": "markdown", "source": ["def g"]}]}
    module = project({"mine.ipynb": json.dumps(book)})
    assert module.f(9) == 3
    assert reading.definitions(module._path) == ["f", "f"]


@pytest.mark.parametrize(("name", "text", "words"), [
    ("mine.py", "def f(:\n", "mine.py is not Python: invalid syntax, line 1"),
    ("mine.ipynb", "{}", "mine.ipynb is not a notebook")])
def test_what_cannot_be_read_is_refused(project, name, text, words):
    with pytest.raises(RefusalError) as caught:
        project({name: text})
    assert str(caught.value) == words


def test_a_file_with_the_name_of_a_library_gets_the_library(project):
    module = project({"torch.py": "import torch\n\n\ndef f():\n    return torch.ones(2).sum()\n"})
    assert module.f() == 2


def test_a_package_that_is_there_and_lacks_a_name_is_not_called_missing(project):
    module = project({"mine.py": """
from json import loads, no_such_name


def attention():
    return no_such_name()
"""})
    with pytest.raises(RefusalError, match=r"line 2 of mine\.py, which raises ImportError: cannot"):
        module.attention()


def test_sizes_of_a_script_are_known_and_nothing_else_of_it(project):
    module = project({"mine.py": """
def attention():
    return width, heads, steps


heads = 4

if __name__ == "__main__":
    width, heads = 64, 8
    steps = 100
    data = open("nowhere.csv").read()
"""})
    with pytest.raises(NameError, match="width"):  # heads would be another number
        module.attention()
    module = project({"other.py": """
def attention():
    return width, steps


if __name__ == "__main__":
    width = 64
    steps = open("nowhere.csv").read()
"""})
    with pytest.raises(NameError, match="steps"):
        module.attention()
    assert module.width == 64


@pytest.mark.parametrize("line", [
    'sys.path.append("../shared")',
    "sys.path.insert(0, str(Path(__file__).parent.parent / 'shared'))",
    "sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'shared'))",
    "sys.path.append(unknown())\nsys.path.append('../shared')"])
def test_a_folder_that_a_file_adds_to_the_path_is_searched(project, line):
    module = project({"a/b/mine.py": f"""
import os
import sys
from pathlib import Path
{line}
from helper import halved


def attention(x):
    return halved(x)
""", "a/b/pyproject.toml": "", "a/shared/helper.py": "def halved(x):\n    return x / 2\n"})
    assert module.attention(3) == 1.5
