"""A function of q, k and v as people write it, called by the names of its arguments."""

import importlib
import inspect
import itertools

import numpy as np

from ... import checks, frameworks
from .. import _subject
from .asked import hides_later, refused
from .entry import KINDS, NOT_PASSED, REPLACED, Entry, full, like
from .names import first, is_mask, left_out, placed, roles_of, signature

AXES = ("(b, h, i, d)", "(b, i, d)", "(i, d)", "(b, i, h, d)")
# A mask that lacks axes: how it is cut from (b, h, i, j), and the option of ``examine_kernel``.
LACKING = {"(b, i, j)": (lambda mask: mask[:, 0], "heads alike"),
           "(i, j)": (lambda mask: mask[0, 0], "heads alike"),
           "(b, j)": (lambda mask: mask[:, 0, 0], "padding"),
           "(b,)": (lambda mask: mask[:, 0, 0].sum(-1), "lengths")}


def kernel(program, guesses=None):
    """Return the Entry of a function of q, k and v.

    ``guesses``: the frameworks to try. Raises RefusalError if it can be called in none of the ways
    that the doctor knows.
    """
    with _subject.refusing():
        roles = roles_of(program)
    if not set("qkv") <= set(roles.values()):
        raise _subject.RefusalError("does not have the arguments q, k and v")
    parameters = signature(program).parameters
    masked = next((name for name, role in roles.items() if is_mask(role)), "")
    needed = masked and parameters[masked].default is inspect.Parameter.empty
    problem, fits, absent = "", [], left_out(program, roles)
    names = ", ".join(name if name == role else f"{name}={role}" for name, role in roles.items())
    tries = itertools.product(guesses or frameworks.guesses(program), (False, True), AXES,
                              ("", *LACKING) if masked else ("",),
                              KINDS if masked else (("", None),))
    for framework, square, axes, lacking, (words, make) in tries:
        lengths = bool(masked) and roles[masked] == "lengths"
        if (lacking == "(b,)") != lengths or (lengths and words != KINDS[0][0]) or (
                lacking and not lengths and axes not in (AXES[0], AXES[3])):
            continue
        words = "the number of real keys" if lengths else words
        adapted = _adapted(program, roles, (axes, lacking), make, needed)
        words = f"{lacking}, {words}" if lacking else words
        problem, fit = refused(adapted, framework, masked and (lacking or "mask"), square)
        if problem and not fit:
            continue
        said = f"Called as ({names}), with q {axes}" + f"; {masked}: {words}" * bool(masked)
        options = {"framework": framework, "masks": LACKING[lacking][1] if lacking else
                   "any" if masked else "none",
                   "causal": hides_later(adapted, framework)}
        notes = (NOT_PASSED.format(" and ".join(absent)),) if absent else ()
        if not problem:
            passed = _adapted(program, roles, (axes, lacking), make, True)
            if options["causal"] and masked and not hides_later(passed, framework):
                return Entry(passed, "kernel", options | {"causal": False}, said,
                             notes=(REPLACED, *notes))
            return Entry(adapted, "kernel", options, said, notes=notes)
        fits.append(Entry(adapted, "kernel", options, f"{said} (assumed)", sure=False,
                          notes=notes))
    if fits:  # a mask that hides nothing in any way may be the fault
        words = {}
        for entry in fits:
            axes, _, meaning = entry.said.removesuffix(" (assumed)").rpartition(": ")
            if axes == fits[0].said.rpartition(": ")[0]:
                words.setdefault(meaning.rpartition("), ")[2], entry)
        return fits[0]._replace(others=tuple(words.values())[1:])
    if needed and roles[masked] != "none":  # of no kind that is known; many programs take None
        found = kernel(_without(program, masked), guesses)
        causal = ", and it is causal" if found.options["causal"] else ""
        return found._replace(said=f"{found.said}; {masked} was always None{causal}",
                              unasked="its mask")
    raise _subject.RefusalError(problem)


def _without(program, masked):
    """Return a program whose mask is always None."""
    def unmasked(*sides, **named):
        return program(*sides, **named | {masked: None})
    one = signature(program)
    unmasked.__signature__ = one.replace(parameters=[
        part for name, part in one.parameters.items() if name != masked])
    unmasked.__name__, unmasked.program = getattr(program, "__name__", "program"), program
    return unmasked


def _adapted(program, roles, axes, make, needed):
    """Return a program for (q, k, v, keep) with the axes b and h."""
    def adapted(q, k, v, keep=None):
        mask = None
        if make and (keep is not None or needed):
            mask = like(make(full(keep, *q.shape[:3], k.shape[2])), q)
        return _in_pieces(program, roles, axes, (q, k, v, mask))
    adapted.__name__ = getattr(program, "__name__", "program")
    return adapted


def _in_pieces(program, roles, axes, given):
    """Return the context; where all examples have one mask, they are called one by one."""
    axes, lacking = axes
    *sides, mask = given
    if not lacking or mask is None:
        return _by_axes(program, roles, axes, given)
    cut = LACKING[lacking][0]
    if lacking == "(b,)" and axes == AXES[1]:  # the heads will be in the batch
        mask = like(np.repeat(checks.to_numpy(cut(mask)), mask.shape[1]), sides[0])
        return _by_axes(program, roles, axes, (*sides, mask))
    if lacking != "(i, j)":
        return _by_axes(program, roles, axes, (*sides, cut(mask)))
    outs = [_by_axes(program, roles, axes, (*(side[b:b + 1] for side in sides), cut(mask[b:b + 1])))
            for b in range(len(mask))]
    return like(np.concatenate([checks.to_numpy(out) for out in outs]), sides[0])


def _by_axes(program, roles, axes, given):
    """Return the context (b, h, i, d_v) of a program for arrays with these axes."""
    q, _, v, _ = given
    shape = *q.shape[:3], v.shape[-1]

    def called(*sides):
        q, k, v, mask = sides
        return program(**placed(roles, q, (k, v), mask))
    if axes == AXES[0]:
        return first(called(*given), shape)
    if axes == AXES[1]:
        flat = [None if side is None else _shaped(side, (-1, *side.shape[2:])) for side in given]
        return _shaped(first(called(*flat), (shape[0] * shape[1], *shape[2:])), shape)
    if axes == AXES[3]:
        turned = [*(_turned(side) for side in given[:3]), given[3]]
        return _turned(first(called(*turned), (shape[0], shape[2], shape[1], shape[3])))
    outs = [first(called(*(None if side is None else side[b, h] for side in given)), shape[2:])
            for b in range(shape[0]) for h in range(shape[1])]
    if hasattr(q, "new_tensor"):
        return importlib.import_module("torch").stack(outs).reshape(shape)
    return like(np.stack([checks.to_numpy(out) for out in outs]).reshape(shape), q)


def _turned(x):
    """Return x (b, h, i, d) as (b, i, h, d)."""
    return x.swapaxes(1, 2) if hasattr(x, "swapaxes") else frameworks.tensorflow().transpose(
        x, (0, 2, 1, 3))


def _shaped(x, shape):
    return x.reshape(shape) if hasattr(x, "reshape") else frameworks.tensorflow().reshape(
        x, [int(n) for n in shape])
