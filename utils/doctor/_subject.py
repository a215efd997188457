"""A program of any framework behind one interface: NumPy arrays in, an ``Answer`` out.

A program that raises an error, does not return arrays or writes into its input raises nothing here:
the Answer says so. No framework is imported that the program does not use.
"""

import contextlib
import re
import sys
import warnings
from typing import NamedTuple

import numpy as np

from .. import checks, frameworks
from ..source import RefusalError

COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal, in messages of Keras


class OptionError(ValueError, TypeError):
    """An option of the reader has no such value, or does not belong to this program."""


class Answer(NamedTuple):
    """What a program returned, as NumPy arrays, or in ``error`` why it returned no array."""

    out: np.ndarray | None = None
    rest: object = None     # the second of two results: weights, or a cache
    dtype: str = ""
    wrote: tuple = ()       # the indices of the arguments that it has changed
    error: str = ""


class Subject:
    """A program to be examined: called with NumPy arrays, it returns an Answer and never raises.

    ``framework`` is one of ``frameworks.NAMES``. ``dtype`` is that of the floating-point arrays
    that the program gets. Every call gets copies, so a program may write into them.
    """

    def __init__(self, program, framework, dtype="float64"):
        self.program, self.framework, self.dtype = program, framework, dtype

    def __call__(self, *args):
        given = {}
        try:
            copies = [self._given(arg, given) for arg in args]
            with quiet():
                returned = self.program(*copies)
            out, rest = returned if _is_pair(returned) else (returned, None)
            if not hasattr(out, "shape"):
                return Answer(error=f"returns {kind(out)}; expected an array")
            array = checks.to_numpy(out)
        except (Exception, SystemExit) as error:  # a program may raise anything
            return Answer(error=_described(error))
        wrote = tuple(n for n, arg in enumerate(args) if isinstance(arg, (np.ndarray, dict))
                      and not _same(copies[n], self._given(arg, {})))
        return Answer(array, rest, checks.dtype_name(out), wrote)

    def _given(self, value, memo):
        """Return a value in the program's framework; an array that is passed twice stays one."""
        if isinstance(value, dict):
            return {name: self._given(item, memo) for name, item in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        if id(value) not in memo:
            memo[id(value)] = self._tensor(value)
        return memo[id(value)]

    def _tensor(self, value):
        array = np.array(value, dtype=self.dtype if value.dtype.kind == "f" else value.dtype)
        if self.framework == "torch":
            import torch
            return torch.from_numpy(array)
        if self.framework == "tensorflow":
            return frameworks.tensorflow().constant(array)
        return array


@contextlib.contextmanager
def refusing():
    """Turn any error that is raised in the block into a RefusalError."""
    try:
        with quiet():
            yield
    except RefusalError:
        raise
    except (Exception, SystemExit) as error:  # a constructor may raise anything
        raise RefusalError(_described(error)) from error


def answering(subject):
    """Return a Subject as a function that returns arrays, and raises if there are none."""
    def program(*args):
        answer = subject(*args)
        if answer.error:
            raise RuntimeError(answer.error)
        return answer.out if answer.rest is None else (answer.out, answer.rest)
    return program


def trials(program, framework=None):
    """Yield the Subjects to try in turn: each possible framework in float64, then in float32.

    PyTorch, whose import takes two seconds, is tried only if something, such as the trial before,
    has imported it.
    """
    for dtype in ("float64", "float32"):
        for name in [framework] if framework else frameworks.guesses(program):
            if framework or name != "torch" or "torch" in sys.modules:
                yield Subject(program, name, dtype)


def _described(error):
    """Return an exception as one line of at most 200 characters."""
    if isinstance(error, RefusalError):
        return str(error)
    try:
        text = " ".join(COLOURS.sub("", str(error)).split())[:170].rstrip(". ")
    except Exception:  # its __str__ raises, too
        text = ""
    return f"raises {type(error).__name__}" + (f": {text}" if text else "")


@contextlib.contextmanager
def quiet():
    """Run without warnings, and without gradients if PyTorch is loaded."""
    torch = sys.modules.get("torch")
    with warnings.catch_warnings(), np.errstate(all="ignore"), (
            torch.no_grad() if torch else contextlib.nullcontext()):
        warnings.simplefilter("ignore")
        yield


def _same(copy, original):
    if isinstance(original, dict):
        return copy.keys() == original.keys() and all(
            _same(copy[name], original[name]) for name in original)
    return np.array_equal(checks.to_numpy(copy), checks.to_numpy(original))


def _is_pair(returned):
    return isinstance(returned, (tuple, list)) and len(returned) == 2 and (
        isinstance(returned, tuple) or hasattr(returned[0], "shape"))  # two numbers are no pair


def kind(value):
    """Return in words what a program returned instead of an array."""
    if value is None:
        return "None"
    length = f" of length {len(value)}" if isinstance(value, (tuple, list)) else ""
    return f"a {type(value).__name__}{length}"
