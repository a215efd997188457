"""A program of any framework behind one interface: NumPy arrays in, an ``Answer`` out.

A program that raises, returns something else than arrays or writes into its input is not an error
here but something to tell. Nothing is imported that the program does not use.
"""

import contextlib
import sys
import warnings
from typing import NamedTuple

import numpy as np

from utils import checks, frameworks


class RefusalError(Exception):
    """A program cannot even be asked; the words, such as "raises TypeError", say why."""


class Answer(NamedTuple):
    """What a program gave back: NumPy arrays, or in ``error`` the words for why it did not."""

    out: np.ndarray | None = None
    rest: object = None     # the second thing that it returned: weights, or a cache
    dtype: str = ""
    wrote: tuple = ()       # the places of the arguments that it has changed
    error: str = ""


class Subject:
    """A program to be examined: called with NumPy arrays, it returns an Answer and never raises.

    ``framework`` is one of ``frameworks.NAMES``, ``dtype`` what floating-point arrays are turned
    into. Every call gets copies, so a program that writes into its input spoils nothing.
    """

    def __init__(self, program, framework, dtype="float64"):
        self.program, self.framework, self.dtype = program, framework, dtype

    def __call__(self, *args):
        given, copies = {}, [None] * len(args)
        try:
            copies = [self._given(arg, given) for arg in args]
            with _quiet():
                returned = self.program(*copies)
            out, rest = returned if _is_pair(returned) else (returned, None)
            if not hasattr(out, "shape"):
                return Answer(error=f"returns {_kind(out)} instead of an array")
            array = checks.to_numpy(out)
        except (Exception, SystemExit) as error:  # whatever a learner's program raises
            return Answer(error=_said(error))
        wrote = tuple(n for n, arg in enumerate(args) if isinstance(arg, (np.ndarray, dict))
                      and not _same(copies[n], self._given(arg, {})))
        return Answer(array, rest, checks.dtype_name(out), wrote)

    def _given(self, value, memo):
        """Return a value as the program's framework has it; what is one array stays one."""
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
        return frameworks.tensorflow().constant(array) if self.framework == "tensorflow" else array


@contextlib.contextmanager
def refusing():
    """Turn whatever is raised in the block into a RefusalError."""
    try:
        with _quiet():
            yield
    except RefusalError:
        raise
    except (Exception, SystemExit) as error:  # of a learner's constructor
        raise RefusalError(_said(error)) from error


def answering(subject):
    """Return a Subject as a function that returns arrays, and raises where it got no answer."""
    def program(*args):
        answer = subject(*args)
        if answer.error:
            raise RuntimeError(answer.error)
        return answer.out if answer.rest is None else (answer.out, answer.rest)
    return program


def trials(program, framework=None):
    """Yield Subjects to try in turn: each framework that it may be, in float64, then float32.

    PyTorch only if somebody has imported it by then: it takes two seconds.
    """
    for dtype in ("float64", "float32"):
        for name in [framework] if framework else frameworks.guesses(program):
            if framework or name != "torch" or "torch" in sys.modules:
                yield Subject(program, name, dtype)


def _said(error):
    """Return an exception as one line of at most 200 characters."""
    try:
        text = " ".join(str(error).split())[:170].rstrip(". ")
    except Exception:  # it cannot even say what it is
        text = ""
    return f"raises {type(error).__name__}" + (f": {text}" if text else "")


@contextlib.contextmanager
def _quiet():
    """Run without warnings, and without recording gradients where PyTorch is loaded."""
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
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        return False
    return isinstance(returned, tuple) or hasattr(returned[0], "shape")  # not numbers in a list


def _kind(value):
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
