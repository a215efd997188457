"""A function of a notebook becomes a file that runs alone, with all that it uses."""

import linecache
import runpy
import sys
from types import ModuleType

import pytest

from utils.source import writing

CELLS = ['''
import math
import textwrap
import numpy as np
import torch.nn.functional as F
from fractions import Fraction
from math import sqrt as root

SIZES, NAME = (3, [4, None]), "wide"
words = object()
FAR, HALF = (float("inf"), [-float("inf"), float("nan")]), np.float64(0.5)
''', '''
def mark(function):
    return function

class Layer:
    """Not 1 but 2."""
    width = len(NAME)

    def area(self):
        return self.width * helper(2)

class Static:
    @staticmethod
    def twice(n):
        return 2 * n

class TextWrapper:
    shorten = staticmethod(textwrap.shorten)

    def of_the_notebook(self):
        return self.shorten("one two", 5)
''', '''
def helper(n):
    return n + SIZES[0]

def helper(n):  # the later one counts
    return n + SIZES[0] * 10

alias = helper
''', '''
@mark
def program(x, words=None):  # words is another one outside
    local = math.floor(x)
    return [alias(n) for n in range(local)], Layer().area(), Fraction(1, 2), root(16), F.__name__

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)

def with_an_object():
    return words

def far():
    return FAR

def with_a_number_of_numpy():
    return HALF

def with_a_missing_name():
    return unheard_of

squared = lambda x: x * x

def outer(n):
    def inner():
        return n
    return inner
''']


@pytest.fixture
def notebook(monkeypatch):
    """Return the names of a notebook whose cells have been run as IPython runs them."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    for number, cell in enumerate(CELLS):
        name = f"/tmp/ipykernel_1/{number}.py"
        monkeypatch.setitem(linecache.cache, name, (len(cell), None, cell.splitlines(True), name))
        exec(compile(cell, name, "exec"), vars(module))
    return module


def rerun(source, path):
    """Return the program of a source, run as a file of its own."""
    path.write_text(source, "utf-8")
    return runpy.run_path(str(path))["program"]


def test_a_program_does_elsewhere_what_it_does_in_the_notebook(notebook, tmp_path):
    source = writing.written(notebook.program)
    got = rerun(source, tmp_path / "program.py")(2.5)
    assert got == ([30, 31], 4 * 32, notebook.Fraction(1, 2), 4.0, "torch.nn.functional")
    assert "words = " not in source
    assert "odd" not in source


def test_functions_that_call_each_other_both_go_along(notebook, tmp_path):
    even = rerun(writing.written(notebook.even), tmp_path / "program.py")
    assert [even(n) for n in range(4)] == [True, False, True, False]


def test_what_cannot_be_written_down_is_named(notebook):
    with pytest.raises(TypeError, match="the program uses words, a object, which does not exist"):
        writing.written(notebook.with_an_object)
    with pytest.raises(TypeError, match="the program uses HALF, a float64, which does not exist"):
        writing.written(notebook.with_a_number_of_numpy)


def test_infinity_and_what_is_no_number_go_along(notebook, tmp_path):
    plus, (minus, nan) = rerun(writing.written(notebook.far), tmp_path / "program.py")()
    assert (plus, minus) == (float("inf"), -float("inf"))
    assert nan != nan


def test_a_name_that_nobody_has_defined_is_left_to_the_run(notebook, tmp_path):
    program = rerun(writing.written(notebook.with_a_missing_name), tmp_path / "program.py")
    with pytest.raises(NameError, match="unheard_of"):
        program()


def test_what_stands_in_a_module_is_imported_from_there():
    assert writing.written(linecache.getline) == (
        "from math import inf, nan\nfrom linecache import getline as getline\n"
        "program = getline\n")


@pytest.mark.parametrize("make", [lambda notebook: notebook.squared, lambda notebook: 3,
                                  lambda notebook: notebook.outer(3),
                                  lambda notebook: notebook.Layer])
def test_only_a_function_of_its_own_is_a_program(notebook, make):
    with pytest.raises(TypeError, match="program must be a function defined with def, outside"):
        writing.written(make(notebook))


def test_the_definition_of_a_class_and_of_a_decorated_function_is_found_whole(notebook):
    assert writing.definition(notebook.Layer).splitlines()[1] == '    """Not 1 but 2."""'
    assert writing.definition(notebook.Layer).endswith("helper(2)")
    assert writing.definition(notebook.program).startswith(
        "@mark\ndef program(x, words=None):")
    assert "10" in writing.definition(notebook.helper)
    assert writing.definition(notebook.Static).endswith("return 2 * n")


def test_a_class_is_the_notebook_s_even_where_a_method_and_the_name_are_another_module_s(notebook):
    assert writing.definition(notebook.TextWrapper).endswith('self.shorten("one two", 5)')


def test_a_class_without_functions_has_no_source(notebook):
    with pytest.raises(TypeError, match="there is no source of Empty"):
        writing.definition(type("Empty", (), {"__module__": "__main__"}))


def test_names_are_those_from_outside():
    source = ("def f(x, words=SIZE):\n    y = a.b\n    g = [words[n] for n in x]\n"
              "    return lambda: c(y, g)\n\nclass C(Base):\n    d = e\n"
              "    def h(self):\n        return self.d\n")
    assert writing.names(source) == ["Base", "SIZE", "a", "c", "e"]


def test_imports_are_those_of_the_file():
    source = "import a.b as c, d\nfrom e.f import g\ndef h():\n    import i\n"
    assert writing.imports(source) == ["a.b", "d", "e.f"]
