"""From what an examination found to the Report that a reader gets."""

from utils.doctor import _packing, _search, modules
from utils.doctor._exam import OVERFLOW
from utils.doctor._report import Report, described, enumerated
from utils.doctor.levels import designs

EXACT, SINGLE = 1e-9, 1e-5  # the accuracy of float64 and of float32, in any order of operations
CHOICES = {"zeros": "zeros", "nan": "NaN", "average": "the average of all values",
           "unmasked": "the output without a mask", "": "something else"}
CALLED = {"kernel": ("q", "k", "v", "keep"), "decoding": ("q", "k", "v", "cache"),
          "layer": ("x", "memory", "weights", "n_heads", "keep")}


def of_problem(problem):
    """Return the verdict on a program that never gave an output of the right form."""
    return "could not examine" if problem.startswith(("raises", "needs")) else "sick"


def how_called(level, problem, module=False):
    """Return a sentence on how a program is called, if it raised an error on its arguments."""
    if not problem.startswith("raises TypeError") or "argument" not in problem:
        return ""
    if module:
        return (" A module is called as module(x, memory, keep): self_attention=True leaves out "
                'memory, masks="none" leaves out keep, and call= defines any other call.')
    return f" At level {level}, a program is called with the arguments {', '.join(CALLED[level])}."


def written(name, level, exam, found, fully_masked=None):
    """Return the Report on a program from its Exam and the sets of Switches that explain it.

    ``fully_masked``: what a fully masked row must get, a key of CHOICES, or None.
    """
    module = _module(exam)
    dropout = exam.random and exam.ask.dropout
    settings = _search.merged(found[0]) if found else {}
    evidence = _evidence(exam, found, settings, dropout)
    findings, notes = _side_effects(exam), _notes(exam)
    found, recognised = designs.recognised(found)
    notes = recognised + notes
    if recognised and found == [()]:
        evidence = evidence.replace("with this fault", "of this kind").replace(
            "with these faults", "of this kind")
    if module:
        found, packing_notes = _packing.without_assumptions(found, module)
        notes += packing_notes
    details = {switch.fault: switch.detail for some in found for switch in some if switch.detail}
    names = _names(found, dropout)
    if exam.random and not names and _makes_layers(exam):
        names = [("new layer in every call",)]
    if names == [()]:
        wrong, choices = _choices(exam, settings, fully_masked)
        wrong_further, noted = _further(exam)
        findings, notes = findings + wrong + wrong_further, notes + choices + noted
    elif not names and not (module and module.roles_problem):
        if len(exam.undefined) < len(exam.asked):
            findings.append(exam.differences())
        if not exam.undefined and not exam.random:
            findings += _probed(exam)
    verdict, headline = _verdict(exam, names, findings, notes, details)
    names = [] if verdict == "could not examine" else [some for some in names if some]
    return Report(name, level, verdict, headline, names, details, findings, notes, evidence)


def _makes_layers(exam):
    """Return whether a call of the program makes parameters."""
    with modules.parameters_made() as made:
        exam.subject(*exam.asked[0][0].args)
    return bool(made)


def _module(exam):
    """Return the Module that was examined, or None for any other program."""
    program = exam.subject.program
    return program if isinstance(program, modules.Module) else None


def _evidence(exam, found, settings, dropout):
    """Return a sentence on how well the explanation fits, "" without one."""
    if not found:
        return ""
    evidence = exam.evidence(settings, len(found[0]))
    return evidence.rstrip(".") + ", without its dropout." if dropout else evidence


def _names(found, dropout):
    """Return the distinct tuples of fault names, with "dropout in eval" first where it is on."""
    first = ("dropout in eval",) if dropout else ()
    names = [first + tuple(switch.fault for switch in some) for some in found]
    return list(dict.fromkeys(names))


def _verdict(exam, names, findings, notes, details):
    """Return the verdict and the headline."""
    module = _module(exam)
    if names == [()] and _masked(exam.asked) and not _masked(exam.answers):
        raised = [problem for problem, _ in exam.problems.values() if problem.startswith("raises")]
        problem = raised[0] if raised else "takes no mask"
        return "could not examine", f'with a mask it {problem}; masks="none" examines it without.'
    if module and module.roles_problem and not exam.random:
        return "could not examine", f"{module.roles_problem}."
    if names == [()]:
        if findings:
            first = findings[0][0].lower() + findings[0][1:]
            return "sick", f"{first} Otherwise it equals the reference."
        return "note" if notes else "healthy", "it equals the reference."
    if not names and module and module.unknown and not exam.undefined and not exam.random:
        return "could not examine", (
            f"it has weights of which the doctor knows nothing ({', '.join(module.unknown[:3])}). "
            "With them it differs from the reference, as another design would."
            f"{f' Examine its attention alone: {module.inside}.' if module.inside else ''}")
    if not names and module and module.inside and module.normed and not exam.undefined and (
            not exam.random):
        return "could not examine", (
            "it is more than attention: it has a LayerNorm in a place that the doctor does not "
            "know, and differs from the reference. Examine its attention alone: "
            f"{module.inside}.")
    return "sick", _named(names, details) if names else _unexplained(exam)


def _unexplained(exam):
    """Return the headline on a sick program that no set of faults explains."""
    if exam.undefined:
        return (f"it gives NaN in {len(exam.undefined)} of {len(exam.asked)} cases where the "
                f"reference gives numbers (first case: {exam.undefined[0]}).")
    if exam.random:
        return ("no match. Identical calls give different outputs, and "
                f"{exam.ask.kind} does not explain it.")
    if exam.untried:
        return ("no match. It differs from the reference, and there was time for only "
                f"{exam.untried} sets of faults.")
    return "no match. It differs from the reference, and no fault with a name explains it."


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


def _side_effects(exam):
    """Return sentences on what a program does that is wrong whatever it returns."""
    found = []
    wrote = {index for _, answer in exam.asked for index in answer.wrote}
    names = [name for n, name in enumerate(exam.level.arguments) if n in wrote]
    if names:
        found.append(f"It writes into its input: {enumerated(names)}.")
    if exam.random and not exam.ask.dropout:
        found.append("Identical calls give different outputs.")
    return found + _problems(exam, "sick")


def _notes(exam):
    """Return sentences on what was guessed, and on which cases could not be compared."""
    module, limits, found = _module(exam), exam.level.limits(), []
    if module and module.guessed and not module.roles_problem:
        found.append(f"These roles are guessed: {module.where}. Pass roles= to be certain.")
    if limits:
        found.append(f"It was examined only with {limits}, because it does not take other sizes.")
    return found + _problems(exam, "could not examine")


def _problems(exam, verdict):
    """Return sentences on the cases without a usable answer, of this verdict."""
    found = []
    for problem, cases in exam.problems.values():
        its_verdict = "could not examine" if problem == OVERFLOW else of_problem(problem)
        if its_verdict == verdict:
            found.append(f"{_listed(cases)}, it {problem}.")
    return found


def _listed(cases):
    """Return "In the case …" or "In the cases …", with at most four names."""
    if len(cases) == 1:
        return f"In the case {cases[0]}"
    shown = cases if len(cases) <= 4 else [*cases[:3], f"{len(cases) - 3} more"]
    return f"In the cases {enumerated(shown)}"


def _choices(exam, settings, fully_masked):
    """Return (findings, notes) on what a fully masked row gets, and on the precision."""
    notes = []
    choice = exam.fully_masked(settings, fully_masked or "zeros")
    gets = f"A fully masked row gets {CHOICES[choice]}"
    if fully_masked and choice != fully_masked:
        return [f"{gets}; expected {CHOICES[fully_masked]}."], []
    if not fully_masked and choice != "zeros":
        notes.append(f"{gets}.")
    gap = exam.largest(settings)
    if exam.subject.dtype == "float64" and gap > EXACT:
        bound = "about 1e-7" if gap < SINGLE else f"{gap:.0e}"
        notes.append(f"It takes float64, but agrees with the reference only to {bound}.")
    return [], notes


def _further(exam):
    """Return (findings, notes) of the probes of properties that no case compares."""
    failed = [found for found in exam.level.further_probes(exam.subject) if found.ok is False]
    if OVERFLOW in exam.problems:  # a note says so already
        failed = [found for found in failed if found.probe != "finiteness"]
    wrong = [found.sentence for found in failed if found.probe == "weights on/off"]
    return wrong, [found.sentence for found in failed if found.sentence not in wrong]


def _probed(exam):
    """Return the sentences of the probes that fail, and one on the probes that pass."""
    ran = [found for found in exam.level.probes(exam.subject)
           if found.ok is not None and found.probe not in ("fully masked row", "untouched")]
    sentences = [f"{found.probe}: {found.sentence}" for found in ran if not found.ok]
    passed = [found.probe for found in ran if found.ok]
    if passed:
        sentences.append(f"These probes find nothing: {', '.join(passed)}.")
    return sentences
