"""The examination of a program: its answers, and the faulty programs that give the same answers.

A ``levels.level.Level`` decides which cases a program is called with, and which faults are tried.
"""

import numpy as np

from .. import checks
from . import _search, _subject
from .faulty.kernel import EMPTIED, FULLY_MASKED, KEYS
from .levels.kernel_cases import EXTREME

ROUNDING = 1e-7  # sums in another order, in float32
OVERFLOW = "gives numbers that are not finite: subtract the largest score before exp"


def choose(program, levels, framework=None):
    """Return (subject, level, problem): how the program can be called, or why it cannot.

    Tries the levels in turn, and for each the Subjects of ``_subject.trials``. Prefers one that
    also takes masks. Where none can be called, subject and level are None.
    """
    problems = []
    for level in levels:
        unmasked, *masked = (case.args for case in level.search_cases()[:3])
        without_masks = None
        for subject in _subject.trials(program, framework):
            problem = level.problem(subject(*unmasked), unmasked)
            if not problem:
                if not any(level.problem(subject(*args), args) for args in masked):
                    return subject, level, ""
                without_masks = without_masks or subject
                continue
            problems.append(problem)
            if not problem.startswith("raises"):
                break  # it returned something, so this is the framework it was written for
        if without_masks:
            return without_masks, level, ""
    returned = [problem for problem in problems if not problem.startswith("raises")]
    return None, None, (returned or problems)[0]


class Exam:
    """What a program answered to the cases of its level, and which settings explain that.

    ``asked`` are all (Case, Answer), ``answers`` those of the right form, and ``problems`` is
    {kind: (problem, names of the cases)} of the others. ``undefined`` are the names of the cases
    with NaN where the reference has a number. ``random``: identical calls gave different answers.
    ``untried`` says how many sets of faults were tried, "" for all of them.
    """

    def __init__(self, subject, level):
        self.subject, self.level, self.ask = subject, level, subject
        self.untried, self.problems = "", {}
        cases = level.search_cases()
        masked = cases[:2][-1].args  # without a mask, if the level has no second case
        first, second = subject(*masked), subject(*masked)
        self.random = first.out is not None and not _search.gap(first.out, second.out) < ROUNDING
        if self.random:
            self.ask = level.without_dropout(subject)
        self.asked = [(case, self.ask(*case.args)) for case in cases]
        self.answers = self._usable(self.asked)
        self.undefined = [case.name for case, answer in self.answers
                          if np.isinf(self.gap(case, answer, {}))]
        if self.undefined and EXTREME.issuperset(self.undefined):
            self.problems[OVERFLOW] = OVERFLOW, self.undefined  # a note, and not a fault
            self.answers = [pair for pair in self.answers if pair[0].name not in self.undefined]

    def _usable(self, asked):
        """Return the pairs of (Case, Answer) of the right form, and note the other problems."""
        usable = []
        for case, answer in asked:
            problem = self.level.problem(answer, case.args)
            if not problem:
                usable.append((case, answer))
                continue
            kind = problem.partition(":")[0]  # messages that differ only in numbers are told once
            self.problems.setdefault(kind, (problem, []))[1].append(case.name)
        return usable

    def agrees(self, settings, answers=None):
        """Return whether the faulty program with these settings gives the same answers.

        Fully masked rows are not compared, as a program may choose what they get. But a softmax
        over other axes has such slices in most elements; then one choice must fit all answers.
        """
        answers = self.answers if answers is None else answers
        if settings.get("axes", (KEYS,)) == (KEYS,):
            return self._agrees(settings, answers)
        return self._agrees(settings, answers[:1]) and any(
            self._agrees(settings | {"emptied": emptied}, answers, choice)
            for choice in FULLY_MASKED for emptied in EMPTIED)

    def _agrees(self, settings, answers, fully_masked=None):
        return all(self.gap(case, answer, settings, fully_masked) <= self._tolerance(answer)
                   for case, answer in answers)

    def gap(self, case, answer, settings, fully_masked=None):
        """Return the largest difference of an answer, weights included, from the faulty program's.

        ``fully_masked``: one of FULLY_MASKED, or None to leave out what depends on it.
        """
        out, weights = self.level.expected(case.args, settings, fully_masked or "nan")
        pairs = [(answer.out, out)]
        if weights is not None and np.shape(answer.rest) == weights.shape:
            pairs.append((checks.to_numpy(answer.rest), weights))
        return max(_search.gap(*pair, fully_masked is None) for pair in pairs)

    def _tolerance(self, answer):
        return max(_search.TOLERANCES.get(name, 2e-5)
                   for name in (answer.dtype, self.subject.dtype))

    def diagnose(self, most=None):
        """Return the smallest sets, of at most ``most`` Switches, that also explain new cases."""
        most = self.level.largest if most is None else min(most, self.level.largest)
        found = [()] if self.agrees({}) else self._searched(most)
        new = self._usable([(case, self.ask(*case.args))
                            for case in self.level.confirmation_cases()])
        confirmed = [some for some in found if self.agrees(_search.merged(some), new)]
        self.answers += new
        # What shows only where n_q == n_k, as in the new cases, is looked for in all of them.
        found = self._searched(most) if found and not confirmed else confirmed
        found = [some for some in found if not some or self.shows(_search.merged(some))]
        # Prefer explanations that also say what a fully masked row gets.
        complete = [some for some in found if self.fully_masked(_search.merged(some))]
        return complete or found

    def _searched(self, most):
        """Return the smallest sets of Switches that explain all answers so far."""
        level = self.level
        found, tried, sets = _search.search(
            level.switches(self.ask), self.agrees, most, rare=level.rare(), alone=level.alone(),
            beside=level.beside())
        if not found and tried < sets:
            self.untried = f"{tried:,} of {sets:,}"
        return found

    def shows(self, settings):
        """Return whether these settings give, in some answer, a number that the reference has not.

        Settings that mask a whole row exactly where the program differs would explain anything.
        """
        for case, answer in self.answers:
            if not self.agrees({}, [(case, answer)]):
                out, _ = self.level.expected(case.args, settings, "nan")
                right, _ = self.level.expected(case.args, {}, "nan")
                if (np.isfinite(out) & ~np.isclose(out, right)).any():
                    return True
        return False

    def fully_masked(self, settings, preferred=FULLY_MASKED[0]):
        """Return what a fully masked row gets, one of FULLY_MASKED, or "" for something else.

        ``preferred`` is returned if several fit, because no row is fully masked.
        """
        return next((choice for choice in (preferred, *FULLY_MASKED)
                     if self._agrees(settings, self.answers, choice)), "")

    def differences(self):
        """Return a sentence on where the program differs from the reference, and by how much."""
        gaps = {case.name: self.gap(case, answer, {}) for case, answer in self.answers
                if not self.agrees({}, [(case, answer)])}
        if not gaps:
            return "It differs from the reference only randomly."
        equal = [case.name for case, _ in self.answers if case.name not in gaps]
        worst = max(gaps, key=gaps.get)
        most = "with NaN" if np.isinf(gaps[worst]) else f"by up to {gaps[worst]:.1g}"
        where = f"It equals the reference in these cases: {', '.join(equal)}." if equal else ""
        sentence = (f"It differs from the reference in {len(gaps)} of {len(self.answers)} cases, "
                    f"{most} (in the case “{worst}”).")
        return " ".join(filter(None, [sentence, where, self.level.not_searched()]))

    def largest(self, settings):
        """Return the largest difference of any answer from the faulty program's."""
        return max(self.gap(case, answer, settings) for case, answer in self.answers)

    def agreement(self, settings):
        """Return in words how many answers these settings explain, and how exactly."""
        good = sum(self.agrees(settings, [pair]) for pair in self.answers)
        masked = sum(case.args[-1] is not None for case, _ in self.answers)
        which = f", {masked} of them with a mask" if masked else ", with no mask passed"
        which = which if self.level.arguments[-1] == "keep" else ""
        return (f"{good} of {len(self.answers)} cases{which} ({self.answers[0][1].dtype}, largest "
                f"difference {_search.rounded(self.largest(settings))})")
