"""Sentences of a Report: what else is wrong, what was guessed, and what the probes say."""

from . import modules
from ._exam import OVERFLOW
from ._report import enumerated

EXACT, SINGLE = 1e-9, 1e-5  # the accuracy of float64 and of float32, in any order of operations
CHOICES = {"zeros": "zeros", "nan": "NaN", "average": "the average of all values",
           "unmasked": "the output without a mask", "": "numbers, but not zeros and no average"}
NEXT_FAILED = "Start with {}: look for the line that makes this probe fail."
NEXT = ("Next, check what was assumed of the call, above all of its mask. If that is right, it is "
        "another design, or a mistake without a name: compare it with the equation line by line.")


def of_problem(problem):
    """Return the verdict on a program that never gave a usable output."""
    return "could not examine" if problem.startswith(("raises", "needs", OVERFLOW)) else "sick"


def its_module(exam):
    """Return the Module that was examined, or None for any other program."""
    program = exam.subject.program
    return program if isinstance(program, modules.Module) else None


def side_effects(exam):
    """Return sentences on what a program does that is wrong whatever it returns."""
    found = []
    wrote = {index for _, answer in exam.asked for index in answer.wrote}
    names = [name for n, name in enumerate(exam.level.arguments) if n in wrote]
    if names:
        found.append(f"It writes into its input: {enumerated(names)}.")
    if exam.random and not exam.ask.dropout:
        found.append("Identical calls give different outputs.")
    return found + _problems(exam, "sick")


def asides(exam):
    """Return sentences on what was guessed, and on which nobody need act."""
    module = its_module(exam)
    if module and module.guessed and not module.roles_problem:
        return [f"The roles were read from the names: {module.where}."]
    return []


def notes(exam):
    """Return sentences on which cases could not be compared."""
    limits, found = exam.level.limits(), []
    if limits:
        found.append(f"It was examined only with {limits}: it takes no other sizes, which is no "
                     "fault.")
    if its_module(exam) and exam.level.form.no_output and not exam.level.one_head():
        found.append("It has no W_o, which is not counted as a fault: its output is the heads side "
                     "by side.")
    return found + _problems(exam, "could not examine")


def _problems(exam, verdict):
    """Return sentences on the cases without a usable answer, of this verdict."""
    found = []
    for problem, cases in exam.problems.values():
        if of_problem(problem) == verdict:
            shown = cases if len(cases) <= 4 else [*cases[:3], f"{len(cases) - 3} more"]
            where = "In the case" if len(cases) == 1 else "In the cases"
            found.append(f"{where} {enumerated(shown)}, it {problem}.")
    return found


def of_equal(exam, settings, fully_masked):
    """Return (findings, notes, asides) on a program that equals the reference.

    They say what a fully masked row gets, how exact it is, and which further probes fail.
    """
    findings, notes, said = [], [], []
    choice, gap = exam.fully_masked(settings, fully_masked or "zeros"), exam.largest(settings)
    gets = f"A fully masked row gets {CHOICES[choice]}"
    if fully_masked and choice != fully_masked:
        findings.append(f"{gets}; expected {CHOICES[fully_masked]}.")
    elif exam.subject.dtype == "float64" and gap > EXACT:
        bound = "about 1e-7" if gap < SINGLE else f"{gap:.0e}"
        notes.append(f"It takes float64, but agrees with the reference only to {bound}.")
    if not fully_masked and choice != "zeros":
        said.append(f"{gets}.")
    for found in exam.level.further_probes(exam.subject):
        if found.ok is False and not (found.probe == "finiteness" and OVERFLOW in exam.problems):
            kind = findings if found.probe == "weights on/off" else notes
            kind.append(found.sentence)
    return findings, notes, said


def probed(exam):
    """Return the sentences of the probes that fail, and one on the probes that pass."""
    ran = [found for found in exam.level.probes(exam.subject)
           if found.ok is not None and found.probe not in ("fully masked row", "untouched")]
    failed = [found for found in ran if not found.ok]
    sentences = [f"{found.probe}: {found.sentence}" for found in failed]
    passed = [found.probe for found in ran if found.ok]
    if passed:
        sentences.append(f"These probes pass: {', '.join(passed)}.")
    return [*sentences, NEXT_FAILED.format(failed[0].probe) if failed else NEXT]
