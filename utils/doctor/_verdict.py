"""From what an examination found to the Report that a reader gets."""

from utils.doctor import _search
from utils.doctor._exam import OVERFLOW
from utils.doctor._report import Report, described
from utils.doctor.levels.layer_switches import WITHIN
from utils.doctor.modules import guess, slots

EXACT, SINGLE = 1e-9, 1e-5  # float64 and float32 are this good, whatever the order of operations
CHOICES = {"zeros": "zeros", "nan": "NaN", "average": "the average of all values",
           "unmasked": "what it would get without a mask", "": "something of its own"}
CALLED = {"kernel": ("q", "k", "v", "keep"), "decoding": ("q", "k", "v", "cache"),
          "layer": ("x", "memory", "weights", "n_heads", "keep")}
ORDERS = {"packed order", "interleaved packing"}  # what a guess of the roles may get wrong


def of_problem(problem):
    """Return the verdict on a program that never gave an answer of the right form."""
    return "could not examine" if problem.startswith("raises") else "sick"


def how_called(level, problem, module=False):
    """Return a sentence on how the doctor calls a program that refused its arguments, or ""."""
    if not problem.startswith("raises TypeError") or "argument" not in problem:
        return ""
    if module:
        return (" A module is called as module(x, memory, keep); self_attention leaves out memory, "
                'masks="none" keep, and call= says anything else.')
    return f" At level {level} a program is called with {', '.join(CALLED[level])}."


def written(name, level, exam, found, empty_rows=None):
    """Return the Report on a program from its Exam and the sets of Switches that explain it.

    ``empty_rows``: what a query without keys must get, a key of CHOICES, or None.
    """
    dropout = exam.random and exam.ask.dropout
    settings = _search.together(found[0]) if found else {}
    evidence = exam.evidence(settings) if found else ""
    if dropout and evidence:
        evidence = evidence.rstrip(".") + ", its dropout aside."
    findings, notes = _besides(exam), _notes(exam)
    if hasattr(exam.subject.program, "guessed"):
        found, orders = _unordered(found, exam.subject.program)
        notes += orders
    details = {switch.fault: switch.detail for some in found for switch in some if switch.detail}
    names = list(dict.fromkeys((*["dropout in eval"] * dropout, *(switch.fault for switch in some))
                               for some in found))
    if names == [()]:
        wrong, choices = _choices(exam, settings, empty_rows)
        found_besides, noted = _asked_besides(exam)
        findings, notes = findings + wrong + found_besides, notes + choices + noted
    elif not names and not getattr(exam.subject.program, "missing", ""):
        findings += [] if len(exam.undefined) == len(exam.asked) else [exam.differences()]
        findings += [] if exam.undefined or exam.random else _probed(exam)
    verdict, headline = _verdict(exam, names, findings, notes, details)
    names = [] if verdict == "could not examine" else [some for some in names if some]
    return Report(name, level, verdict, headline, names, details, findings, notes, evidence)


def _verdict(exam, names, findings, notes, details):
    """Return the verdict and the headline."""
    missing = getattr(exam.subject.program, "missing", "")
    if names == [()] and _masked(exam.asked) and not _masked(exam.answers):
        said = next((wrong for wrong, _ in exam.troubles.values() if wrong.startswith("raises")),
                    "takes no mask")
        return "could not examine", f'with a mask it {said}; masks="none" asks it without.'
    if missing and not exam.random:
        return "could not examine", f"{missing}."
    if not names and exam.undefined:
        return "sick", (f"it gives NaN in {len(exam.undefined)} of {len(exam.asked)} cases, "
                        f"where numbers are due ({exam.undefined[0]}).")
    if not names and exam.random:
        return "sick", ("no match. Asked the same again, it answers otherwise, and not by "
                        f"{exam.ask.kind}.")
    if not names:
        rest = (f"and only {exam.untried} sets of faults were tried" if exam.untried else
                "nor any fault with a name")
        return "sick", f"no match. It is not the reference, {rest}."
    if names == [()] and findings:
        return "sick", (f"{findings[0][0].lower()}{findings[0][1:]} Otherwise it equals the "
                        "reference.")
    if names == [()]:
        return "note" if notes else "healthy", "it equals the reference."
    return "sick", _named(names, details)


def _named(names, details):
    """Return the headline of what has a name: a single fault with what it does."""
    if names[1:]:
        return (f"{', or '.join(map(' and '.join, names))}. Nothing that it can be asked tells "
                "them apart.")
    one = names[0][0] if len(names[0]) == 1 else ""
    return f"{' and '.join(names[0])}." + (f" {described(one, details)}" if one else "")


def _unordered(found, module):
    """Return (found, notes) without what need be no fault, but how a module holds its weights."""
    turned = _unsure(found, module)

    def held(switch):
        if turned.issuperset(switch.settings.get("transposed", "?")):
            return "its square parameters as nn.Linear or Dense would hold them"
        if switch.settings.get("reading", [()])[0] == WITHIN:
            return "the features of each head side by side"
        return "the roles as guessed" if switch.fault in ORDERS and module.guessed else ""

    shown = [switch for some in found[:1] for switch in some if held(switch)]
    if not shown:
        return found, []
    rest = [tuple(switch for switch in some if not held(switch)) for some in found]
    return (rest if all(rest) else [()]), [
        f"With {held(switch)} it shows: {switch.fault} ({switch.detail}). If it is meant to hold "
        "them so, nothing is wrong." for switch in shown]


def _unsure(found, module):
    """Return the set of letters whose weights may be meant the other way round."""
    if module.missing or not any("transposed" in s.settings for some in found for s in some):
        return set()
    (d_model, n_heads, _), built = next(iter(module.built.items()))
    held = guess.guess(built, d_model, n_heads) if module.guessed else module.said
    return set(slots.unsure(built, held))


def _masked(asked):
    return [case for case, _ in asked if case.args[-1] is not None]


def _besides(exam):
    """Return sentences on what a program does besides answering."""
    wrote = {place for _, answer in exam.asked for place in answer.wrote}
    letters = [letter for n, letter in enumerate(exam.level.arguments) if n in wrote]
    found = [f"It writes into its input: {' and '.join(letters)}."] if letters else []
    if exam.random and not exam.ask.dropout:
        found.append("The same question is answered differently each time.")
    return found + _troubles(exam, "sick")


def _notes(exam):
    """Return sentences on what was guessed, and on what it could not be asked."""
    program, limits = exam.subject.program, exam.level.limits()
    guessed = getattr(program, "guessed", False) and not program.missing
    found = [f"Guessed: {program.where}; roles= says it for certain."] if guessed else []
    if limits:
        found.append(f"It was asked with {limits} only: other sizes it does not take.")
    return found + _troubles(exam, "could not examine")


def _troubles(exam, verdict):
    """Return sentences on the cases without a usable answer: a mask refused, or a wrong form."""
    return [f"With {_listed(cases)} it {wrong}." for wrong, cases in exam.troubles.values()
            if ("could not examine" if wrong == OVERFLOW else of_problem(wrong)) == verdict]


def _listed(cases):
    more = f" and {len(cases) - 3} more cases" if len(cases) > 4 else ""
    return ", ".join(cases[:3] if more else cases) + more


def _choices(exam, settings, empty_rows):
    """Return (findings, notes) on what queries without keys get, and on precision."""
    style, notes = exam.style(settings, empty_rows or "zeros"), []
    gets = f"A query without keys gets {CHOICES[style]}"
    if empty_rows and style != empty_rows:
        return [f"{gets}; {CHOICES[empty_rows]} was asked for."], []
    if not empty_rows and style != "zeros":
        notes.append(f"{gets}.")
    gap = exam.largest(settings)
    if exam.subject.dtype == "float64" and gap > EXACT:
        bound = "about 1e-7" if gap < SINGLE else f"{gap:.0e}"
        notes.append(f"It takes float64 and agrees to {bound} only.")
    return [], notes


def _asked_besides(exam):
    """Return (findings, notes) of the probes of what the answers themselves do not show."""
    failed = [found for found in exam.level.besides(exam.subject) if found.ok is False
              and not (found.probe == "finiteness" and OVERFLOW in exam.troubles)]
    wrong = [found.sentence for found in failed if found.probe == "weights on/off"]
    return wrong, [found.sentence for found in failed if found.sentence not in wrong]


def _probed(exam):
    """Return the sentences of the probes that fail, and what the others rule out."""
    asked = [found for found in exam.level.probes(exam.subject)
             if found.ok is not None and found.probe not in ("empty row", "untouched")]
    passed = [found.probe for found in asked if found.ok]
    return [f"{found.probe}: {found.sentence}" for found in asked if not found.ok] + [
        f"These probes find nothing: {', '.join(passed)}."] * bool(passed)
