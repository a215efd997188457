"""From what an examination found to the Report that a reader gets."""

from . import _findings, _packing, _search, modules
from ._report import Report, described, enumerated
from .levels import designs

CALLED = {"kernel": "q, k, v, keep", "decoding": "q, k, v, cache",
          "layer": "x, memory, weights, n_heads, keep"}


def how_called(level, problem, module=False):
    """Return a sentence on how a program is called, if it raised an error on its arguments."""
    if not problem.startswith("raises TypeError") or "argument" not in problem:
        return ""
    if module:
        return (" A module is called as module(x, memory, keep): `self_attention=True` leaves "
                'out memory, `masks="none"` leaves out keep, and `call=…` defines any other call.')
    return f" At level {level}, a program is called with the arguments {CALLED[level]}."


def written(name, level, exam, found, fully_masked=None):
    """Return the Report on a program from its Exam and the sets of Switches that explain it."""
    module = _findings.its_module(exam)
    dropout = exam.random and exam.ask.dropout
    settings = _search.merged(found[0]) if found else {}
    findings, notes = _findings.side_effects(exam), _findings.notes(exam)
    asides = _findings.asides(exam)
    found, recognised = designs.recognised(found)
    found, assumed = _packing.by_name(found, module), []
    if module:
        found, assumed = _packing.without_assumptions(found, module)
    notes = recognised + notes + assumed
    evidence = _evidence(exam, settings, len(found[0]), recognised + assumed, dropout
                         ) if found else ""
    details = {switch.fault: switch.detail for some in found for switch in some if switch.detail}
    first = ["dropout in eval"] if dropout else []
    names = list(dict.fromkeys((*first, *(switch.fault for switch in some)) for some in found))
    if exam.random and not names:
        with modules.parameters_made() as made:
            exam.subject(*exam.asked[0][0].args)
        names = [("new layer in every call",)] if made else []
    if names == [()]:
        wrong, noted, said = _findings.of_equal(exam, settings, fully_masked)
        findings, notes, asides = findings + wrong, notes + noted, asides + said
    elif not names and not (module and module.roles_problem):
        if len(exam.undefined) < len(exam.asked):
            findings.append(exam.differences())
        if not exam.undefined and not exam.random:
            findings += _findings.probed(exam)
    verdict, headline = _verdict(exam, names, findings, details)
    names = [] if verdict == "could not examine" else [some for some in names if some]
    return Report(name, level, verdict, headline, names, details, findings, notes, asides, evidence)


def _evidence(exam, settings, faults, changed, dropout):
    """Return a sentence on how well so many faults, and what was noted beside, explain it."""
    with_faults = ("", " with this fault", " with these faults")[min(faults, 2)]
    noted = ", changed as noted," if changed else ""
    quiet = " as the program without its dropout" if dropout else ""
    return (f"The reference{with_faults}{noted} gives the same outputs{quiet} in "
            f"{exam.agreement(settings)}.")


def _verdict(exam, names, findings, details):
    """Return the verdict and the headline."""
    module = _findings.its_module(exam)
    if names == [()] and _masked(exam.asked) and not _masked(exam.answers):
        problem = next((problem for problem, _ in exam.problems.values()
                        if problem.startswith("raises")), "takes no mask")
        return "could not examine", (
            f'with a mask it {problem}. To examine it without one, pass `masks="none"`.')
    if module and module.roles_problem and not exam.random:
        return "could not examine", f"{module.roles_problem}."
    if names == [()]:
        if not findings:
            return "healthy", "it equals the reference."
        first = findings[0][0].lower() + findings[0][1:]
        return "sick", f"{first} Otherwise it equals the reference."
    if names:
        return "sick", _named(names, details)
    beyond = _beyond_attention(module) if module else ""
    if beyond and not exam.undefined and not exam.random:
        return "could not examine", beyond
    return _without_name(exam)


def _beyond_attention(module):
    """Return a sentence on what a module has that may not belong to attention, or ""."""
    alone = f" Examine its attention alone: {module.inside}." if module.inside else ""
    if module.unknown:
        return ("it has weights of which the doctor knows nothing "
                f"({', '.join(module.unknown[:3])}). With them it differs from the reference, as "
                f"another design would.{alone}")
    if module.inside and module.normed:
        return ("it is more than attention: it has a LayerNorm in a place that the doctor does not "
                f"know, and differs from the reference.{alone}")
    return ""


def _without_name(exam):
    """Return the verdict and headline; it is sick only where no right program could do the same."""
    if exam.undefined:
        return "sick", (f"it gives NaN in {len(exam.undefined)} of {len(exam.asked)} cases where "
                        f"the reference gives numbers (first case: {exam.undefined[0]}).")
    if exam.random:
        return "sick", ("identical calls give different outputs, and "
                        f"{exam.ask.kind} does not explain it.")
    if exam.untried:
        return "unexplained", (
            "it differs from the reference, and there was time for only "
            f"{exam.untried} sets of faults; in the shell, --seconds 300 gives five times as much.")
    return "unexplained", "it differs from the reference, and no fault with a name explains it."


def _named(names, details):
    """Return the headline on faults with a name; a single fault is described."""
    if len(names) > 1:
        alternatives = ", or ".join(map(enumerated, names))
        return f"{alternatives}. No input that the program takes can distinguish them."
    faults = names[0]
    if len(faults) > 1:
        return f"{enumerated(faults)}."
    return f"{faults[0]}. {described(faults[0], details)}"


def _masked(asked):
    """Return the cases with a mask, which is their last argument."""
    return [case for case, _ in asked if case.args[-1] is not None]
