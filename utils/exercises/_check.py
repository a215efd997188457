"""What every chapter's exercises share: ``check(name, answer)`` and ``check.hint(name)``.

The exercises of a chapter are in ``utils.exercises.<chapter>``, whose ``check`` is a ``Check``. A
*judge* is a function that takes an answer. It returns "" if the answer is right, and otherwise a
message that says what is wrong with it without giving the solution away.
"""

import dis
import inspect
import textwrap
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import numpy as np

UTILS = Path(__file__).parents[1]
EMPTY_BODY = {"RESUME", "NOP", "COPY_FREE_VARS", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}


class Exercise(NamedTuple):
    """One exercise: its judge, its hints from vague to concrete, and a remark on a right answer."""

    judge: Callable
    hints: tuple
    praise: str


class Feedback:
    """The reply to an answer: true if the answer is right, and printed as text."""

    def __init__(self, right, text):
        self.right, self.text = right, text

    def __bool__(self):
        return self.right

    def __repr__(self):
        return "\n".join(map(_wrapped, self.text.splitlines()))


def _wrapped(line):
    """Return a line broken after at most 78 characters, all parts indented alike."""
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(line, 78, subsequent_indent=indent)


class Check:
    """A chapter's exercises: ``check(name, answer)`` judges, ``check.hint(name)`` gives a hint.

    Both raise ValueError for an unknown name.
    """

    def __init__(self, exercises):
        self.exercises = exercises
        self.hints_given = dict.fromkeys(exercises, 0)

    def __call__(self, name, answer):
        """Return the Feedback for an answer: right, not yet and why, or not attempted yet."""
        exercise = self._find(name)
        problem = None if not_attempted(answer) else run_judge(exercise.judge, answer)
        if problem is None:
            return Feedback(False, f'{name}: not attempted yet. check.hint("{name}") gives a hint.')
        if problem:
            return Feedback(False, f"{name}: not yet. {problem}")
        return Feedback(True, f"{name}: right. {exercise.praise}")

    def hint(self, name):
        """Return the next hint for an exercise; after the last hint, return the last one again."""
        hints = self._find(name).hints
        number = self.hints_given[name] = min(self.hints_given[name] + 1, len(hints))
        text = f"Hint {number} of {len(hints)}: {hints[number - 1]}"
        if number == len(hints):
            text += " That was the last hint; the solution is below."
        return Feedback(True, text)

    def _find(self, name):
        if name not in self.exercises:
            nearest = get_close_matches(str(name), self.exercises, 1, 0)[0]
            raise ValueError(f"there is no exercise {name!r} in this chapter; did you mean "
                             f"{nearest!r}? All names: {', '.join(self.exercises)}")
        return self.exercises[name]


def not_attempted(answer):
    """Return whether an answer is still as the page left it: None, ..., or made of those alone.

    This includes a function whose body is ``...``, ``pass`` or ``return None``, a class without
    any other function, and a list, tuple or dict that holds only such parts.
    """
    if answer is None or answer is ...:
        return True
    if isinstance(answer, dict):
        return all(map(not_attempted, answer.values()))
    if isinstance(answer, list | tuple):
        return all(map(not_attempted, answer))
    if inspect.isfunction(answer):
        steps = list(dis.get_instructions(answer))
        consts = [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")]
        return {step.opname for step in steps} <= EMPTY_BODY and consts[-1] in (None, ...)
    if isinstance(answer, type):
        return all(map(not_attempted, filter(inspect.isfunction, vars(answer).values())))
    return False


def run_judge(judge, answer):
    """Return the judge's message, or None if the answer raises NotImplementedError.

    Any other error of the reader's code becomes a sentence that quotes the reader's line.
    """
    try:
        with np.errstate(all="ignore"):
            return judge(answer)
    except NotImplementedError:
        return None
    except Exception as error:  # of the reader's code
        if str(error).endswith(f"{type(answer).__name__}' object is not callable"):
            return ("This exercise asks for a function or a class: give `check` its name, without "
                    f"calling it. Yours is of type {type(answer).__name__}.")
        message = " ".join(str(error).split())[:200]
        return f"It raises {type(error).__name__}{_readers_line(error)}: {message}"


def _readers_line(error):
    """Return ", at `the last line outside utils and the libraries`", "" if there is none."""
    steps = [step for step in traceback.extract_tb(error.__traceback__)
             if UTILS not in Path(step.filename).parents and "site-packages" not in step.filename]
    return f", at `{steps[-1].line.strip()}`" if steps and steps[-1].line else ""
