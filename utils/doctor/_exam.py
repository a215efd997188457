"""The examination of a program: its answers, and the faulty programs that give the same answers.

What is asked, and what the faulty programs are, is decided by a ``levels.level.Level``.
"""

import numpy as np

from utils import checks
from utils.doctor import _search, _subject
from utils.doctor.faulty.kernel import KEYS
from utils.doctor.levels.kernel_cases import EXTREME

EMPTY = ("zeros", "nan", "average", "unmasked")
ROUNDING = 1e-7  # sums in another order, in float32
OVERFLOW = "gives numbers that are not finite: subtract the largest score before exp"


def settle(program, levels, framework=None):
    """Return (subject, level, problem): how the program can be asked, or the words for why not.

    ``levels`` from the most general down, frameworks and dtypes in the order of
    ``subjects.trials``; of these, one that takes masks, too, if there is any.
    """
    problems = []
    for level in levels:
        unmasked, *masked = (case.args for case in level.cases()[:3])
        able = []
        for subject in _subject.trials(program, framework):
            wrong = level.trouble(subject(*unmasked), unmasked)
            if not wrong and not any(level.trouble(subject(*args), args) for args in masked):
                return subject, level, ""
            able += [subject] * (not wrong)
            problems += [wrong] * bool(wrong)
            if wrong and not wrong.startswith("raises"):
                break  # it answers: this is what it was written for
        if able:
            return able[0], level, ""
    return None, None, next((wrong for wrong in problems if not wrong.startswith("raises")),
                            problems[0])


class Exam:
    """What a program answered to all cases of its level, and which settings explain that."""

    def __init__(self, subject, level):
        self.subject, self.level, self.ask = subject, level, subject
        cases = level.cases()
        self.untried = ""  # of how many sets of faults how many were tried, where time was short
        self.random = not _same(subject, cases[min(1, len(cases) - 1)].args)
        if self.random:
            self.ask = level.steady(subject)
        self.asked = [(case, self.ask(*case.args)) for case in cases]
        self.troubles = {}
        self.answers = self._usable(self.asked)
        self.undefined = [case.name for case, answer in self.answers
                          if np.isinf(self.gap(case, answer, {}))]
        if self.undefined and EXTREME.issuperset(self.undefined):
            self.troubles[OVERFLOW] = OVERFLOW, self.undefined  # to be told, but no fault by itself
            self.answers = [pair for pair in self.answers if pair[0].name not in self.undefined]

    def _usable(self, asked):
        for case, answer in asked:
            wrong = self.level.trouble(answer, case.args)
            if wrong:  # of messages that differ in their numbers, one is enough
                kind = wrong.partition(":")[0]
                self.troubles.setdefault(kind, (wrong, []))[1].append(case.name)
        return [pair for pair in asked if not self.level.trouble(pair[1], pair[0].args)]

    def agrees(self, settings, answers=None):
        """Return whether the faulty program answers as this one does, up to rounding.

        Queries without keys are passed over, as it is a choice what they get. Where the softmax
        does not run over the keys, most of the answers would be: one choice must fit them all.
        """
        over_keys = settings.get("axes", (KEYS,)) == (KEYS,)
        return any(self._agrees(settings, self.answers if answers is None else answers, empty)
                   for empty in ((None,) if over_keys else EMPTY))

    def _agrees(self, settings, answers, empty):
        return all(self.gap(case, answer, settings, empty) <= self._tolerance(answer)
                   for case, answer in answers)

    def gap(self, case, answer, settings, empty=None):
        """Return the largest difference of an answer, weights included, from the faulty one's.

        ``empty`` is one of EMPTY; None: what depends on it is passed over.
        """
        out, weights = self.level.expected(case.args, settings, empty or "nan")
        got = _search.gap(answer.out, out, empty is None)
        if weights is not None and np.shape(answer.rest) == weights.shape:
            got = max(got, _search.gap(checks.to_numpy(answer.rest), weights, empty is None))
        return got

    def _tolerance(self, answer):
        return max(_search.TOLERANCES.get(name, 2e-5)
                   for name in (answer.dtype, self.subject.dtype))

    def diagnose(self):
        """Return the smallest sets of Switches that reproduce all answers, confirmed on others."""
        found = [()]
        if not self.agrees({}):
            switches = self.level.switches(self.ask)
            found, tried, sets = _search.search(switches, self.agrees, self.level.largest)
            self.untried = "" if found or tried == sets else f"{tried:,} of {sets:,}"
        others = self._usable([(case, self.ask(*case.args)) for case in self.level.others()])
        found = [some for some in found if self.agrees(_search.together(some), others)]
        self.answers += others
        found = [some for some in found if not some or self.tells(_search.together(some))]
        # An explanation that knows what queries without keys get is better than one that does not.
        return [some for some in found if self.style(_search.together(some))] or found

    def tells(self, settings):
        """Return whether an explanation has a number that the reference has not, in any answer.

        One under which queries have no keys, just where the program differs, explains anything.
        """
        for case, answer in self.answers:
            if not self.agrees({}, [(case, answer)]):
                out, right = (self.level.expected(case.args, some, "nan")[0]
                              for some in (settings, {}))
                if (np.isfinite(out) & ~np.isclose(out, right)).any():
                    return True
        return False

    def style(self, settings, likely=EMPTY[0]):
        """Return what a query without keys gets, one of EMPTY, or "" for something else.

        ``likely``: which to say where several would fit, as there is no such query.
        """
        return next((empty for empty in (likely, *EMPTY)
                     if self._agrees(settings, self.answers, empty)), "")

    def differences(self):
        """Return a sentence on where the program differs from the reference, and by how much."""
        gaps = {case.name: self.gap(case, answer, {}) for case, answer in self.answers
                if not self.agrees({}, [(case, answer)])}
        right = [case.name for case, _ in self.answers if case.name not in gaps]
        if not gaps:
            return "Its answers differ from the reference's only by chance."
        worst = max(gaps, key=gaps.get)
        most = "NaN" if np.isinf(gaps[worst]) else f"by up to {gaps[worst]:.1g}"
        where = f"it is right with: {', '.join(right)}." if right else "it is right in none."
        sentence = (f"It differs from the reference in {len(gaps)} of {len(self.answers)} cases, "
                    f"{most} ({worst}); {where}")
        return f"{sentence} {self.level.unsought()}".strip()

    def largest(self, settings):
        """Return the largest difference of any answer from the faulty program's."""
        return max(self.gap(case, answer, settings) for case, answer in self.answers)

    def evidence(self, settings):
        """Return how many answers the settings explain, and how exactly."""
        good = sum(self.agrees(settings, [pair]) for pair in self.answers)
        what = "Attention with this gives" if settings else "The reference gives"
        return (f"{what} the same answers in {good} of {len(self.answers)} cases "
                f"({self.answers[0][1].dtype}, largest difference "
                f"{_search.rounded(self.largest(settings))}).")


def _same(subject, args):
    """Return whether a program answers the same question twice alike, but for rounding."""
    first, second = subject(*args), subject(*args)
    return first.out is None or _search.gap(first.out, second.out) < ROUNDING
