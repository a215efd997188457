"""Building blocks of judges: comparing answers, answers of several parts, known wrong results."""

import sys
from numbers import Real

import numpy as np

from ..checks import difference, to_numpy
from ._check import not_attempted, run_judge


def parts(judges):
    """Return a judge of a dict: ``judges`` is {key: judge of that part}.

    Every message names its part; parts that are still open are listed at the end.
    """
    def judge(given):
        if not isinstance(given, dict) or set(given) != set(judges):
            return wrong_keys(judges)
        messages, still_open = [], []
        for name, judge_part in judges.items():
            message = None
            if not not_attempted(given[name]):
                message = run_judge(judge_part, given[name])
            if message is None:
                still_open.append(name)
            elif message:
                messages.append(f"{name}: {message}")
        if still_open:
            messages.append(f"Still open: {', '.join(still_open)}.")
        return join_messages(messages)

    return judge


def wrong_keys(keys):
    """Return the message for an answer that is not a dict with these keys."""
    return f"The answer must be a dict with the keys {', '.join(map(repr, keys))}."


def incomplete(given, keys):
    """Return the message for an answer that is not a dict with all these keys filled in, or ""."""
    if not isinstance(given, dict) or set(given) != set(keys):
        return wrong_keys(keys)
    still_open = [key for key in keys if not_attempted(given[key])]
    return f"Still open: {', '.join(still_open)}." if still_open else ""


def prediction(want, mistakes="", tolerance=0.02):
    """Return a judge of one prediction; ``tolerance`` is relative, for floats only.

    ``mistakes`` is a message, or {wrong answer: message}, with None for all other answers.
    """
    return lambda given: explain_difference(given, want, mistakes, tolerance)


def each_prediction(expected, mistakes=None, tolerance=0.05):
    """Return {key: judge of that prediction}; ``mistakes`` is as for prediction, for each key."""
    mistakes = mistakes or {}
    return {key: prediction(want, mistakes.get(key, ""), tolerance)
            for key, want in expected.items()}


def predictions(expected, mistakes=None, tolerance=0.05):
    """Return a judge of a dict of predictions; see each_prediction."""
    return parts(each_prediction(expected, mistakes, tolerance))


def explain_difference(given, want, mistakes="", tolerance=0.05):
    """Return "" if an answer is the wanted one, else a message; see prediction.

    An answer of another kind, such as a string for a number, gets a message about its kind.
    """
    if same_answer(given, want, tolerance):
        return ""
    if not isinstance(mistakes, dict):
        mistakes = {None: mistakes}
    known = [message for wrong, message in mistakes.items()
             if wrong is not None and same_answer(given, wrong, tolerance)]
    message = known[0] if known else _wrong_kind(given, want) or mistakes.get(None, "")
    return f"{given!r} is not correct. {message}".rstrip()


def same_answer(got, want, tolerance=0.05):
    """Return whether two answers are equal: floats within a tolerance, sets in any order."""
    got = _plain(got)
    if isinstance(want, str):
        return isinstance(got, str) and got.strip().lower() == want.lower()
    if isinstance(want, set | frozenset):
        return not isinstance(got, str) and hasattr(got, "__iter__") and set(got) == want
    if isinstance(want, bool) or isinstance(got, bool):
        return got is want
    if isinstance(want, float):
        return isinstance(got, Real) and bool(abs(got - want) <= tolerance * max(abs(want), 1e-12))
    if isinstance(want, list | tuple):
        return isinstance(got, list | tuple) and len(got) == len(want) and all(
            same_answer(one, other, tolerance) for one, other in zip(got, want, strict=True))
    return bool(np.all(got == want))


def _plain(answer):
    """Return numbers, lists and bools in place of those of NumPy and PyTorch."""
    return answer.tolist() if hasattr(answer, "tolist") else answer


def _wrong_kind(given, want):
    """Return what kind of answer is expected, "" if the answer is of that kind."""
    given = _plain(given)
    if isinstance(want, bool):
        return "" if isinstance(given, bool) else "Answer True or False."
    if isinstance(want, Real) and (isinstance(given, bool) or not isinstance(given, Real)):
        return "Write one number, without quotation marks."
    if isinstance(want, str) and not isinstance(given, str):
        return "Write a string, in quotation marks."
    return ""


def join_messages(messages):
    """Return one text: a single message as it is, several below each other.

    A message may itself be such a text; empty ones are left out.
    """
    lines = [line for message in messages for line in message.split("\n  ") if line]
    return "\n  ".join(["", *lines]) if len(lines) > 1 else "".join(lines)


def recognise(got, candidates, tolerance=1e-9):
    """Return the message of the first candidate that ``got`` equals, None if there is none.

    ``candidates`` yields (array, message): the right result with the message "", then results of
    known mistakes.
    """
    for candidate, message in candidates:
        if np.shape(got) == np.shape(candidate) and difference(got, candidate) < tolerance:
            return message
    return None


def doctor_report(program, level="kernel", **options):
    """Return the doctor's report on a program, "" if it is healthy; options as for examine."""
    from ..doctor import examine
    report = examine(program, level, **options)
    return "" if report.verdict == "healthy" else f"The doctor says:\n{report}"


class Recorded:
    """A NumPy program that also takes tensors, and records its calls in ``calls``."""

    def __init__(self, program):
        self.program, self.calls = program, []

    def __call__(self, *given):
        """Return the program's result, as a tensor if a tensor was given, and record the call."""
        arrays = [to_numpy(array) for array in given]
        result = self.program(*arrays)
        self.calls.append((*arrays, result))
        torch = sys.modules.get("torch")
        if torch and any(isinstance(array, torch.Tensor) for array in given):
            return torch.as_tensor(result)
        return result
