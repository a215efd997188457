"""The doctor's four functions: ``examine`` and one function for each level of programs.

A program is called with small random inputs. Its outputs are compared with ``utils.reference``.
Where they differ, they are compared with ``utils.doctor.faulty`` under every fault, and under every
pair and triple of faults. (Over 200 lines, because a third of them says what the options mean.)
"""

import re
from dataclasses import replace

from .. import frameworks
from . import _findings, _subject, _verdict, door, modules
from ._exam import Exam, choose
from ._report import Report, described
from .faulty.kernel import FULLY_MASKED
from .levels import (
    decoding as decoding_level,
    designs,
    kernel as kernel_level,
    kernel_cases,
    layer as layer_level,
)
from .levels.kernel_switches import Options
from .levels.layer_cases import MASKS, Form
from .modules import libraries, slots

# The arguments of programs that are called in the doctor's own way.
ARGUMENTS = (["q", "k", "v", "keep"], ["x", "memory", "weights", "nheads", "keep"])
OF_CALL = ["module", "x", "memory", "keep"]  # those of a function for the option ``call``
OF_MODULES = {"call", "roles", "packed"}     # options that only a layer has
CAUSALITIES = (False, True, "top_left", "bottom_right")
CAUSAL = ("It hides later tokens by itself, so it was examined with `causal=True`; with "
          "`causal=False`, that is a fault.")
# What is no fault in a program with such names: {fault: (the names, the note)}.
PROMISES = {
    "window": ("window|local|sliding|band", "It has a window: {}."),
    "no scale": ("t5", "It does not divide the scores by √d. In T5, the initialisation of W_q "
                 "makes up for that.")}


def examine(program, level=None, **options):
    """Return the Report on a program, whose level is guessed where none is given.

    ``level``: "kernel", "layer" or "decoding". By default, a class, a torch module, a Keras layer
    and a function with ``call=`` are examined as a layer, and everything else as a kernel.
    ``options`` are the keyword arguments of ``examine_kernel``, ``examine_layer`` or
    ``examine_decoder``; their docstrings say how each kind of program is called.

    Raises ValueError for an unknown level or an unknown value of an option, and TypeError for an
    option that the level does not have.

    Without options, a class of torch or a kernel that cannot be called so is built and called by
    the names of its arguments (``utils.doctor.door``); the report says how.

    From the shell: python -m utils.doctor FILE.py:NAME --help
    """
    frameworks.without_triton()
    level = level or ("layer" if OF_MODULES & options.keys() else level_of(program))
    _check("level", level, EXAMINERS)
    examiner = EXAMINERS[level]
    known = examiner.__kwdefaults__
    unknown = [option for option in options if option not in known]
    if unknown:
        raise _subject.OptionError(f"{unknown[0]} is not an option of the level {level}, whose "
                                   f"options are {', '.join(known)}")
    if not isinstance(program, type) and door.arguments_of(program) == OF_CALL:
        name = getattr(program, "__name__", "call")  # an object may have none
        return Report(name, "layer", "could not examine", "it calls a module: examine that module, "
                      f"or its class, with `call={name}`.")
    if level == "decoding" or "call" in options or (
            OF_MODULES & options.keys() and level_of(program) == "kernel"):
        return _as_it_is(program, examiner, options)
    if door.asks_first(program):
        found = _at_the_door(program, options)
        unable = found.verdict == "could not examine" and not found.called
        return _as_it_is(program, examiner, options) if unable else found
    report = _as_it_is(program, examiner, options)
    by_contract = not isinstance(program, type) and door.arguments_of(program) in ARGUMENTS
    if report.verdict != "could not examine" or (by_contract and not options):
        return report
    found = _at_the_door(program, options)
    if found.verdict != "could not examine" or (found.called and not OF_MODULES & options.keys()):
        return found
    return report if options else replace(found, headline=report.headline)


def _as_it_is(program, examiner, options):
    """Return the Report on a program that is called in the doctor's own way.

    Where no option says whether it hides later tokens by itself, that is found out: it then has a
    window, or, behind ``call``, no explanation.
    """
    report = examiner(program, **options)
    unsaid = "causal" in examiner.__kwdefaults__ and "causal" not in options
    windowed = any("window" in some for some in report.names)
    if not unsaid or not (windowed or ("call" in options and report.verdict == "unexplained")):
        return report
    causal = examiner(program, **options, causal=True)
    if causal.verdict != "healthy":
        return report
    return replace(causal, notes=[*causal.notes, CAUSAL])


def _at_the_door(program, given):
    """Return a Report on a program that is built or called in another way than the doctor does.

    ``given``: options of the reader, which are laid over what is recognised.
    """
    scripted = hasattr(program, "schema")  # by torch.jit
    name = program.name if scripted else getattr(program, "__name__", type(program).__name__)
    level = level_of(program)
    try:
        entry = door.layer(program, given.get("n_heads")) if level == "layer" else (
            door.function(program))
    except _subject.RefusalError as refusal:
        code, then = door.adapter(program, "is neither" not in str(refusal))
        called = refusal.tried or ("It was not called" if isinstance(
            refusal, door.UnknownArgumentError) else "")
        return Report(name, level, "could not examine", f"it {refusal}.", called=called,
                      adapter=code, then=then)
    if "causal" in given:  # with the flag that makes it so
        entry = next((one for one in (entry, *entry.both) if bool(one.options["causal"]) == bool(
            given["causal"])), entry)._replace(both=())
    report, chosen = _best(program, name, entry, given)
    for one in chosen.both if report.verdict == "healthy" else ():
        further = _of_entry(program, name, one, given)
        if further.verdict != "healthy":
            return further
        more = " ".join(filter(None, [report.headline, one.warning]))
        which = "the causal reference" if one.options["causal"] else "the reference, too"
        report = replace(report, headline=more,
                         called=f"{report.called}; {one.call}, it equals {which}")
    return report


def _best(program, name, entry, given):
    """Return (Report, Entry): the Entry that needs the fewest faults, of one and its others.

    First, sets of at most one fault are tried for all of them; that is enough for a likely call.
    """
    entries, found = (entry, *entry.others), []
    for most in (1, None) if len(entries) > 1 else (None,):
        found = []
        for one in entries:
            fewer = found and one.likely and min(found)[0]
            limits = [most, fewer[2] - 1 if fewer and not fewer[0] else None]  # more are of no use
            report = _of_entry(program, name, one, given, min(
                [limit for limit in limits if limit is not None], default=None))
            found.append((_rank(report, one), len(found), report))
            if report.verdict == "healthy" and one.likely:
                break
        (unexplained, unlikely, faults), n, report = min(found)
        if not unexplained and not unlikely and faults < 2:
            break
    return report, entries[n]


def _rank(report, entry):
    """Return what orders the Reports on a program: explained, by a likely call, by few faults."""
    explained = report.names or report.verdict == "healthy"
    rest = 99 if report.verdict == "could not examine" else 98
    return not explained, not entry.likely, len(report.names[0]) if report.names else (
        0 if explained else rest)


def _of_entry(program, name, entry, given, most=None):
    """Return the Report on one Entry; sets of at most so many faults are tried."""
    known = EXAMINERS[entry.level].__kwdefaults__
    options = entry.options | {name: value for name, value in given.items() if name in known}
    report = (_kernel(entry.program, most, **options) if entry.level == "kernel" else
              _layer(entry.program, entry.form, most, **options))
    return _kept(_with_notes(replace(report, program=name, called=entry.said), entry), program)


def _with_notes(report, entry):
    """Return a Report with what its Entry says beside it: notes, and a norm that leaks."""
    if report.verdict == "could not examine":
        return report
    if entry.leak:
        fault = "LayerNorm over time"
        details = report.details | {fault: f"its {entry.leak}, which was taken out for the rest"}
        if report.verdict == "healthy":
            evidence = report.evidence.replace(
                "the same outputs", f"the same outputs as the program without its {entry.leak}")
            return replace(report, verdict="sick", names=[(fault,)], details=details,
                           headline=f"{fault}. {described(fault, details)}", evidence=evidence)
        sentence = f"{fault}: {described(fault, details)}"
        report = replace(report, findings=[*report.findings, sentence])
    report = replace(report, notes=[*report.notes, *entry.notes])
    if report.verdict == "healthy" and entry.raises:
        return replace(report, verdict="sick", headline=f"with any mask it raises {entry.raises}. "
                       "Without a mask, it equals the reference.")
    if report.verdict != "healthy":
        return report
    unasked = f"But {entry.unasked} was not examined." if entry.unasked else ""
    return replace(report, headline=" ".join(filter(None, [
        report.headline, unasked, entry.warning])))


def _kept(report, program):
    """Return a Report without a fault that the names in a program promise."""
    parts = door.signature(program).parameters if callable(program) else ()
    words = " ".join([report.program, *parts]).lower()
    for fault, (promise, note) in PROMISES.items():
        if report.names == [(fault,)] and re.search(promise, words):
            note = note.format(report.details.get(fault))
            evidence = report.evidence.replace(" with this fault", ", changed as noted,")
            return replace(report, verdict="healthy", headline="it equals the reference.", names=[],
                           details={}, notes=[note, *report.notes], evidence=evidence)
    return report


def level_of(program):
    """Return "layer" for a class, a torch module, a Keras layer or a function of weights."""
    if isinstance(program, type) or slots.framework(program) or (
            door.arguments_of(program) == ARGUMENTS[1]):
        return "layer"
    return "kernel"


def examine_kernel(program, *, causal=False, fully_masked=None, grouped=False, masks="any",
                   parts=None, framework=None):
    """Return the Report on a kernel, ``program(q, k, v, keep) -> context or (context, weights)``.

    q is (b, h, i, d), k (b, h, j, d), v (b, h, j, d_v) and context (b, h, i, d_v). ``keep`` is
    None, or a bool mask that broadcasts to (b, h, i, j), where True = may attend.

    ``causal``: True if the program applies a causal mask by itself and takes n_q == n_k only,
    "top_left" or "bottom_right" if it also takes other lengths, with that alignment.
    ``fully_masked``: what a fully masked row must get: "zeros", "nan", "average" (of all values) or
    "unmasked" (as if nothing were masked); None accepts any of them.
    ``grouped``: True if k and v may have fewer heads than q.
    ``masks``: which masks the program takes: "any", "heads alike" (the same mask for all heads),
    "padding" (b, 1, 1, j), "lengths" (padding at the end) or "none"; keep is then always None.
    ``parts``: parts of today's models that the program is to have, as a dict: "rope": "halves" or
    "pairs" of dimensions are rotated together, or (one of them, base); "qk_norm": "rms", "layer" or
    "l2", in each head, or "width", the rms of all heads together; "window": how many keys a query
    sees, itself included; "cap": the number that bounds the scores; "sink": one more score of each
    row, a number or one for each head; "yarn": the factor by which YaRN lengthens the text, for its
    temperature on the scores. What is missing or different in them is then a fault with a name.
    ``framework``: "numpy", "torch" or "tensorflow"; None tries those that the code mentions first.

    Raises ValueError for an unknown value of an option, or an unknown part.
    """
    return _kernel(program, causal=causal, fully_masked=fully_masked, grouped=grouped, masks=masks,
                   parts=parts, framework=framework)


def _kernel(program, most=None, *, causal=False, fully_masked=None, grouped=False, masks="any",
            parts=None, framework=None):
    """Return the Report of ``examine_kernel``; sets of at most so many faults are tried."""
    _check_shared(causal, fully_masked)
    _check("masks", masks, kernel_cases.ARBITRARY)
    options = _options(causal, grouped, parts)
    return _examined("kernel", program, fully_masked, framework, lambda: (
        program, kernel_level.levels(options, masks)), most)


def examine_layer(program, *, causal=False, fully_masked=None, self_attention=False, masks="any",
                  pre_norm=False, residual=False, post_norm=False, batch_first=True, n_heads=None,
                  call=None, roles=None, packed=None, parts=None, framework=None):
    """Return the Report on a layer: a function of weights, a torch module or a Keras layer.

    A function is called as ``program(x, memory, weights, n_heads, keep) -> out`` with the weight
    set of ``sizes.weights``. x is (b, i, d_in), memory (b, j, d_in), out (b, i, d_out), and
    ``keep`` as for ``examine_kernel``. ``causal``, ``fully_masked``, ``parts`` and ``framework``
    are those of ``examine_kernel``, too.

    ``self_attention``: True if memory is always x.
    ``masks``: which masks the layer takes: "any", "heads alike" (the same mask for all heads),
    "padding" (b, 1, 1, j) or "none".
    ``pre_norm``: True if a LayerNorm comes first. Its epsilon is 1e-5, or that of the module; the
    gain and bias of a module's LayerNorm are set to 1 and 0.
    ``residual``: True if x is added to the result. ``post_norm``: True if a LayerNorm comes last.
    ``batch_first``: False if x is (i, b, d_in).

    A module may be an instance, a class, or a function ``build(d_model, n_heads)`` together with
    ``call``. ``n_heads``: the number of heads of an instance. ``call(module, x, memory, keep) ->
    out``: how the module is called, by default ``module(x, memory, keep)``, without memory in
    self-attention and without keep if masks are "none". ``roles``, {"q": name, "k": …, "v": …,
    "o": …}, are the parts that hold the weights, and ``packed`` is the part that holds [q | k | v];
    both are guessed if neither is given. ``nn.MultiheadAttention`` and the ``MultiHeadAttention``
    of Keras need none of these options.

    Raises ValueError for an unknown value of an option, and where the number of heads of an
    instance is missing or does not divide its width.
    """
    return _layer(program, None, causal=causal, fully_masked=fully_masked,
                  self_attention=self_attention, masks=masks, pre_norm=pre_norm, residual=residual,
                  post_norm=post_norm, batch_first=batch_first, n_heads=n_heads, call=call,
                  roles=roles, packed=packed, parts=parts, framework=framework)


def _layer(program, of_form, most=None, *, causal=False, fully_masked=None, self_attention=False,
           masks="any", pre_norm=False, residual=False, post_norm=False, batch_first=True,
           n_heads=None, call=None, roles=None, packed=None, parts=None, framework=None):
    """Return the Report of ``examine_layer``; ``of_form``: what no option says of the Form.

    The number of heads of a program that has only so many is its "heads". Only for a program that
    came in by the door, of_form is not None, or is built by a function, as the code to complete
    that the door offers, it is no fault to have no W_o.
    """
    _check_shared(causal, fully_masked)
    _check("masks", masks, MASKS)
    options = _options(causal, parts=parts)
    at_the_door, of_form = of_form is not None, dict(of_form or {})
    fixed = of_form.pop("heads", None)
    square = of_form.pop("square", False) or options.square or self_attention
    form = Form(square=square, self_attention=self_attention,
                masks=masks, pre_norm=pre_norm, residual=residual, post_norm=post_norm, **of_form)
    of_module = {"n_heads": n_heads, "call": call, "roles": roles, "packed": packed}
    built = not isinstance(program, type) and not slots.framework(program)
    is_module = not built or any(value is not None for value in of_module.values())

    def prepared():
        if is_module:
            size = (fixed[0] * fixed[1], fixed[0]) if fixed and fixed[1] else None
            module, heads = modules.of_module(program, self_attention=self_attention, masks=masks,
                                              batch_first=batch_first, size=size, **of_module)
            its_form = form._replace(
                equal_widths=True, own=True, unbiased=module.unbiased, epsilon=module.epsilon,
                no_output=module.no_output and (at_the_door or built),
                one_of=module.one_of, kv=module.kv, wide=module.wide)
            return module, layer_level.levels(its_form, options, heads or fixed)
        layer = program if batch_first else libraries.sequence_first(program)
        return layer, layer_level.levels(form, options, fixed)

    return _examined("layer", program, fully_masked, framework, prepared, most)


def examine_decoder(program, *, grouped=False, parts=None, framework=None):
    """Return the Report on a step of decoding, ``program(q, k, v, cache) -> (context, cache)``.

    The program gets the new positions only: q (b, h, n, d), k (b, h, n, d) and v (b, h, n, d_v) for
    n new positions. cache is None at first, and then whatever the program returned. The context is
    (b, h, n, d_v). The sequence is fed in chunks of several sizes and compared with one causal
    pass. ``grouped``, ``parts`` and ``framework`` are those of ``examine_kernel``.

    Raises ValueError for an unknown part.
    """
    options = _options("bottom_right", grouped, parts)._replace(square=True)
    return _examined("decoding", program, None, framework, lambda: (
        decoding_level.Decoder(program), decoding_level.levels(options)))


def _check_shared(causal, fully_masked):
    _check("causal", causal, CAUSALITIES)
    _check("fully_masked", fully_masked, (None, *FULLY_MASKED))


def _check(name, value, allowed):
    if value not in allowed:
        raise _subject.OptionError(
            f"{name} must be one of {', '.join(map(str, allowed))}, got {value!r}")


def _options(causal, grouped=False, parts=None):
    """Return the Options of a kernel from the arguments of the reader."""
    align = causal if isinstance(causal, str) else "top_left"
    designs.promised(parts or {})  # raises for what is not known
    return Options(bool(causal), align, square=causal is True, grouped=grouped, parts=parts or {})


def _examined(level, program, fully_masked, framework, prepared, most=None):
    """Return the Report; ``prepared()`` returns (the program to call, the Levels to try).

    ``most``: how many faults a set may have.
    """
    name = getattr(program, "__name__", type(program).__name__)
    with modules.restored(program):
        try:
            callee, levels = prepared()
        except _subject.RefusalError as refusal:
            return Report(name, level, "could not examine", f"it {refusal}.")
        except (ValueError, TypeError) as error:
            raise _subject.OptionError(str(error)) from error
        framework = getattr(callee, "framework", framework)
        subject, chosen, problem = choose(callee, levels, framework)
        if subject is None:
            hint = _verdict.how_called(level, problem, isinstance(callee, modules.Module))
            return Report(name, level, _findings.of_problem(problem), f"it {problem}.{hint}")
        exam = Exam(subject, chosen)
        return _verdict.written(name, level, exam, exam.diagnose(most), fully_masked)


EXAMINERS = {"kernel": examine_kernel, "layer": examine_layer, "decoding": examine_decoder}
