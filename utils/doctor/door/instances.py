"""A module that is built: called by the names of its arguments, without the norms around it."""

import copy
from dataclasses import replace

import numpy as np

from .. import _subject, backends
from ..modules import bare, guess
from . import entry
from .call import Target, carried_out, target_of
from .constructors import heads_of
from .entry import Entry
from .plan import LAYER
from .surroundings import promise, surroundings
from .trial import tried

IS_CAUSAL = ("Is it to be causal, as {}? Its outputs depend on later tokens: `causal=True` "
             "examines that.")


def of_instance(module, name, held=None):
    """Return the Entry of a module that is built, so its sizes cannot be chosen."""
    backend = backends.of_module(module)
    if not backend:
        raise _subject.RefusalError("is neither a class, a torch module nor a Keras layer")
    held = held or heads_of(module)
    if not held:
        raise _subject.RefusalError("has no number of heads that can be read; pass `n_heads=…`")
    d_model, whole, norms = guess.width(module, None), module, {}
    if backend is backends.TORCH:
        norms = bare.taken(module)
        module, gone = bare.bared(copy.deepcopy(module))
        name += f" ({gone})" if gone else ""
    trial = of_module(module, d_model, held)
    heads = "one head" if held == 1 else f"{held} heads"
    said = f"{name} has d_model = {d_model} and {heads}, it is "
    found = of_trial(module, trial, said, {"n_heads": held})
    return about_norms(found, trial, whole, norms)


def of_module(module, d_model, n_heads):
    """Return the Trial of a torch module or Keras layer."""
    target = target_of(module, n_heads)
    method = module.forward if hasattr(module, "forward") else module.call
    return tried(target, method, LAYER, d_model, program=module)


def of_trial(program, trial, name, options):
    """Return the Entry of what a Trial has found out; ``options`` may have the Form's "heads"."""
    n_heads = trial.target.n_heads
    around, words = surroundings(trial)
    options = dict(options)
    heads = options.pop("heads", (1, None) if n_heads == 1 and "n_heads" not in options else None)
    signs = promise(trial)
    if len(signs) == 2:
        trial = trial._replace(plan=replace(trial.plan, causal=True))

    def made(plan):
        form = ({"heads": heads} if heads else {}) | ({"square": True} if plan.square else {})
        return Entry(program, "layer", options | around | {
            "call": caller(plan, n_heads), "self_attention": plan.alone, "causal": plan.causal,
            "masks": plan.masks}, f"{name}{plan.said()}{entry.remark(plan)}{words}", form)

    found = entry.entries(trial, made)
    if len(signs) != 1:
        return found
    causal = entry.entries(trial._replace(plan=replace(trial.plan, causal=True), fits=()), made)
    return found._replace(notes=(*found.notes, IS_CAUSAL.format(*signs)),
                          others=(*found.others, causal._replace(likely=False)))


def caller(plan, n_heads):
    """Return ``call(module, x, memory, keep, n_heads=None)`` for the doctor, by a plan."""
    fixed = n_heads

    def call(module, x, memory, keep, n_heads=None):
        sides = (x, x, x) if plan.alone else (x, memory, memory)
        target = Target(module, x, n_heads or heads_of(module) or fixed)
        return carried_out(target, plan, sides, keep)
    return call


def about_norms(found, trial, whole, norms):
    """Return an Entry that says of the norms that were taken out what they do.

    ``whole``: the torch module with its norms, {name: class}.
    """
    if not norms:
        return found
    kinds = " and ".join(sorted(set(norms.values())))
    leak = kinds if _leaks(trial, target_of(whole, trial.target.n_heads)) else ""
    note = f"Its {kinds} was taken out and is not examined."
    return found._replace(leak=leak, notes=(*found.notes, *([] if leak else [note])))


def _leaks(trial, target):
    """Return whether outputs of a causal program depend on later tokens with all its norms."""
    if not trial.plan.causal:
        return False
    outs, (x, memory, _) = [], trial.sides
    for factor in (1.0, -2.0):
        memory = memory.copy()
        memory[:, -1] *= factor
        sides = (memory,) * 3 if trial.plan.alone else (x, memory, memory)
        outs.append(target.answer(trial.plan, sides))
    return bool((np.abs(outs[1] - outs[0])[:, 0] > 1e-5).any())
