"""From what an examination found to the Report that a reader gets."""

from utils import diagnosis
from utils.report import Report

EXACT = 1e-9  # float64 is this good, whatever the order of operations
CHOICES = {"zeros": "zeros", "nan": "NaN", "average": "the average of all values",
           "unmasked": "what it would get without a mask", "": "something of its own"}
ORDERS = {("packed order",), ("interleaved packing",)}  # what a guess of the roles may get wrong


def written(name, level, exam, found, empty_rows=None):
    """Return the Report on a program from its Exam and the sets of Switches that explain it.

    ``empty_rows``: what a query without keys must get, a key of CHOICES, or None.
    """
    dropout = exam.random and exam.ask.dropout
    if exam.random and not dropout:
        found = []
    names = list(dict.fromkeys((*["dropout in eval"] * dropout, *(switch.fault for switch in some))
                               for some in found))
    findings, notes = _besides(exam), _notes(exam)
    if names == [()]:
        wrong, choices = _choices(exam, empty_rows)
        findings, notes = findings + wrong, notes + choices
    elif not names:
        findings += [exam.differences(), *_probed(exam)]
    verdict, headline = _verdict(exam, names, findings, notes)
    names = [] if verdict == "could not examine" else [some for some in names if some]
    details = {switch.fault: switch.detail for some in found for switch in some if switch.detail}
    return Report(name, level, verdict, headline, names, details, findings, notes,
                  exam.evidence(diagnosis.together(found[0]) if found else {}))


def _verdict(exam, names, findings, notes):
    """Return the verdict and the headline."""
    missing = getattr(exam.subject.program, "missing", "")
    if names and _masked(exam.asked) and not _masked(exam.answers):
        return "could not examine", "It takes no mask."
    if missing and not exam.random:
        return "could not examine", f"{missing}."
    if not names:
        return "sick", "No match: it is not the reference, nor any fault with a name."
    if names == [()] and findings:
        return "sick", "Its numbers equal the reference's, and yet:"
    if names == [()]:
        return "note" if notes else "healthy", "It equals the reference."
    guessed = getattr(exam.subject.program, "guessed", False)
    return "note" if guessed and ORDERS & {*names} else "sick", (
        "It equals attention with: " + "; or, the same here: ".join(map(" and ".join, names)) + ".")


def _masked(asked):
    return [case for case, _ in asked if case.args[-1] is not None]


def _besides(exam):
    """Return sentences on what a program does besides answering."""
    wrote = {place for _, answer in exam.asked for place in answer.wrote}
    letters = [letter for n, letter in enumerate(exam.level.arguments) if n in wrote]
    found = [f"It writes into its input: {' and '.join(letters)}."] if letters else []
    if exam.random and not exam.ask.dropout:
        found.append("The same question is answered differently each time.")
    return found


def _notes(exam):
    """Return sentences on what was guessed, and on what it could not be asked."""
    program, limits = exam.subject.program, exam.level.limits()
    guessed = getattr(program, "guessed", False) and not program.missing
    found = [f"Guessed: {program.where}; roles= says it for certain."] if guessed else []
    if limits:
        found.append(f"It was asked with {limits} only: other sizes it does not take.")
    return found + [f"With {', '.join(cases)} it {wrong}."
                    for wrong, cases in exam.troubles.values()]


def _choices(exam, empty_rows):
    """Return (findings, notes) on what queries without keys get, and on precision."""
    style, notes = exam.style({}), []
    gets = f"A query without keys gets {CHOICES[style]}"
    if empty_rows and style != empty_rows:
        return [f"{gets}; {CHOICES[empty_rows]} was asked for."], []
    if not empty_rows and style != "zeros":
        notes.append(f"{gets}.")
    if exam.subject.dtype == "float64" and exam.largest({}) > EXACT:
        notes.append(f"It takes float64 and agrees to {exam.largest({}):.0e} only.")
    return [], notes


def _probed(exam):
    """Return the sentences of the probes that fail, and what the others rule out."""
    asked = [found for found in exam.level.probes(exam.subject)
             if found.ok is not None and found.probe not in ("empty row", "untouched")]
    passed = [found.probe for found in asked if found.ok]
    return [f"{found.probe}: {found.sentence}" for found in asked if not found.ok] + [
        f"These probes find nothing: {', '.join(passed)}."] * bool(passed)
