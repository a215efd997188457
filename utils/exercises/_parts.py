"""Answers of several parts, each with a judge of its own."""

from utils.exercises._answers import listed, unlike
from utils.exercises._check import asked, untouched


def parts(judges):
    """Return a judge of a dict: every part is told by its own judge, those still open are named."""
    def judge(given):
        if not isinstance(given, dict) or set(given) != set(judges):
            return f"The answer is a dict with the keys {', '.join(map(repr, judges))}."
        said = {name: None if untouched(given[name]) else asked(part, given[name])
                for name, part in judges.items()}
        lines = [f"{name}: {text}" for name, text in said.items() if text]
        open_ = [name for name, text in said.items() if text is None]
        return listed(lines + [f"Still open: {', '.join(open_)}."] * bool(open_))

    return judge


def value(want, mistakes="", tolerance=0.02):
    """Return a judge of one prediction; ``mistakes`` is a sentence, or {wrong answer: sentence}.

    In a dict, None stands for all other answers.
    """
    return lambda given: unlike(given, want, mistakes, tolerance)
