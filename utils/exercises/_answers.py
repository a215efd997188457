"""Answers to exercises, compared: are two the same, and if not, what is there to say?"""

from numbers import Real

import numpy as np


def unlike(given, want, mistakes="", tolerance=0.05):
    """Return "" if an answer is the one we want, else a sentence or two: what to think of again.

    ``mistakes`` is a sentence, or {wrong answer: sentence}, with None for all other answers. An
    answer that is not even of the right kind (a text, not a number) is told that.
    """
    if same(given, want, tolerance):
        return ""
    told = mistakes if isinstance(mistakes, dict) else {None: mistakes}
    known = [why for wrong, why in told.items()
             if wrong is not None and same(given, wrong, tolerance)]
    return f"{given!r} is not it. {[*known, _kind(given, want) or told.get(None, '')][0]}".rstrip()


def listed(lines):
    """Return sentences as one text: a single one as it is, several one below the other.

    A sentence may itself be such a text.
    """
    lines = [line for text in lines for line in text.split("\n  ") if line]
    return "\n  ".join(["", *lines] if len(lines) > 1 else lines)


def same(got, want, tolerance=0.05):
    """Return whether two answers are the same: equal, or, for floats, nearly; sets in any order."""
    got = _plain(got)
    if isinstance(want, str):
        return isinstance(got, str) and got.strip().lower() == want.lower()
    if isinstance(want, set | frozenset):
        return not isinstance(got, str) and hasattr(got, "__iter__") and set(got) == want
    if isinstance(want, bool) or isinstance(got, bool | np.bool_):
        return isinstance(got, bool | np.bool_) and isinstance(want, bool) and bool(got) == want
    if isinstance(want, float):
        return isinstance(got, Real) and bool(abs(got - want) <= tolerance * max(abs(want), 1e-12))
    if isinstance(want, list | tuple):
        return isinstance(got, list | tuple) and len(got) == len(want) and all(
            same(one, other, tolerance) for one, other in zip(got, want, strict=True))
    return bool(np.all(got == want))


def _plain(answer):
    return answer.tolist() if hasattr(answer, "tolist") else answer  # of NumPy or PyTorch


def _kind(given, want):
    """Return what kind of answer is asked for, "" if it is of that kind."""
    given = _plain(given)
    if isinstance(want, bool):
        return "" if isinstance(given, bool) else "Answer True or False."
    if isinstance(want, Real):
        return ("" if isinstance(given, Real) and not isinstance(given, bool)
                else "Write one number, without quotation marks.")
    return "Write a word, in quotation marks." if isinstance(want, str) > isinstance(
        given, str) else ""
