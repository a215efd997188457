"""Exercises: what the reader's answer is told, and hints, one at a time.

The exercises of a chapter stand in ``utils.exercises.<chapter>``, whose ``check`` is a ``Check``. A
*judge* takes an answer and returns "" if it is right, or else the
diagnosis: what is wrong with it, never the solution.
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

from utils.exercises._answers import listed, unlike

UTILS = Path(__file__).parents[1]
EMPTY = {"RESUME", "NOP", "COPY_FREE_VARS", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}


class Exercise(NamedTuple):
    """One exercise: its judge, its hints, from slight to plain, and why the right answer is so."""

    judge: Callable
    hints: tuple
    praise: str


class Told:
    """What an answer is told: true when it is right; shown as text."""

    def __init__(self, right, text):
        self.right, self.text = right, text

    def __bool__(self):
        return self.right

    def __repr__(self):
        return "\n".join(textwrap.fill(line, 78, subsequent_indent=" " * (len(line) - len(
            line.lstrip()))) for line in self.text.splitlines())


class Check:
    """A chapter's exercises: ``check(name, answer)`` judges, ``check.hint(name)`` helps.

    Both raise ValueError for a name that is not there.
    """

    def __init__(self, exercises):
        self.exercises = exercises
        self.given = dict.fromkeys(exercises, 0)

    def __call__(self, name, answer):
        """Return the Told of an answer: right, not yet and why, or not attempted yet."""
        exercise = self._find(name)
        problem = None if untouched(answer) else asked(exercise.judge, answer)
        if problem is None:
            return Told(False, f'{name}: not attempted yet. check.hint("{name}") gives a hint.')
        return Told(not problem, f"{name}: not yet. {problem}" if problem
                    else f"{name}: right. {exercise.praise}")

    def hint(self, name):
        """Return the next hint for an exercise, and at the end always the last."""
        hints = self._find(name).hints
        number = self.given[name] = min(self.given[name] + 1, len(hints))
        last = " That was the last; the solution is below." if number == len(hints) else ""
        return Told(True, f"Hint {number} of {len(hints)}: {hints[number - 1]}{last}")

    def _find(self, name):
        if name not in self.exercises:
            near = get_close_matches(str(name), self.exercises, 1, 0)
            raise ValueError(f"no exercise {name!r} here; did you mean {near[0]!r}? "
                             f"All: {', '.join(self.exercises)}")
        return self.exercises[name]


def untouched(answer):
    """Return whether an answer is as the exercise left it: None, ..., or nothing but those.

    A function whose body is ``...``, ``pass`` or ``return None`` is untouched, as is a class
    without any other function, and a list, tuple or dict that holds nothing else.
    """
    if answer is None or answer is ...:
        return True
    if isinstance(answer, dict):
        return all(map(untouched, answer.values()))
    if isinstance(answer, list | tuple):
        return all(map(untouched, answer))
    if inspect.isfunction(answer):
        steps = list(dis.get_instructions(answer))
        consts = [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")]
        return {step.opname for step in steps} <= EMPTY and consts[-1] in (None, ...)
    if isinstance(answer, type):
        return all(untouched(part) for part in vars(answer).values() if inspect.isfunction(part))
    return False


def asked(judge, answer):
    """Return what the judge says; None where the answer says that it is not written yet.

    Whatever the reader's code raises becomes one sentence that names the reader's line.
    """
    try:
        with np.errstate(all="ignore"):
            return judge(answer)
    except NotImplementedError:
        return None
    except Exception as error:  # of the reader's code
        steps = [step for step in traceback.extract_tb(error.__traceback__)
                 if UTILS not in Path(step.filename).parents and "site-packages" not in
                 step.filename]
        if str(error).endswith(f"{type(answer).__name__}' object is not callable"):
            return (f"A function is asked for, or a class: give `check` its name, without calling "
                    f"it. Yours is {type(answer).__name__}.")
        where = f", at `{steps[-1].line.strip()}`" if steps and steps[-1].line else ""
        message = " ".join(str(error).split())[:200]
        return f"It raises {type(error).__name__}{where}: {message}"


def predictions(expected, mistakes=None, tolerance=0.05):
    """Return a judge of a dict of predictions: all of ``expected``, numbers within ``tolerance``.

    ``tolerance`` is relative, for floats only. ``mistakes`` tells what to think of again, per key:
    a sentence, or a dict from wrong answers to sentences, with None for all other answers.
    """
    def judge(given):
        if not isinstance(given, dict) or set(given) != set(expected):
            return f"The answer is a dict with the keys {', '.join(map(repr, expected))}."
        open_ = [key for key in expected if untouched(given[key])]
        lines = [f"{key}: {why}" for key, want in expected.items() if key not in open_ and (
            why := unlike(given[key], want, (mistakes or {}).get(key, ""), tolerance))]
        if open_:
            lines.append(f"Still open: {', '.join(map(str, open_))}.")
        return listed(lines)

    return judge


def examined(program, level="kernel", **options):
    """Return what the doctor says of a program, "" if it is healthy; options as for examine."""
    from utils.doctor import examine
    report = examine(program, level, **options)
    return "" if report.verdict in ("healthy", "note") else f"The doctor says:\n{report}"
