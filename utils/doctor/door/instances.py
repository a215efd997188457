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
from .trial import changed, tried

IS_CAUSAL = ("Is it to be causal, as {}? Its outputs depend on later tokens: `causal=True` "
             "examines that.")


def of_instance(module, name, held=None):
    """Return the Entry of a module that is built, so its sizes cannot be chosen."""
    if not backends.of_module(module):
        raise _subject.RefusalError("is neither a class, a torch module nor a Keras layer")
    held = held or heads_of(module)
    if not held:
        raise _subject.RefusalError("has no number of heads that can be read; pass `n_heads=…`")
    d_model = guess.width(module, None)
    sample, norms, gone = without_norms(module)
    name += f" ({gone})" if gone else ""
    trial = of_module(sample, d_model, held)
    heads = "one head" if held == 1 else f"{held} heads"
    said = f"{name} has d_model = {d_model} and {heads}, it is "
    found = of_trial(sample, trial, said, {"n_heads": held})
    return about_norms(found, trial, module, norms)


def without_norms(module, layer_norms=False):
    """Return (a copy of a torch module without its norms, {name: class} of them, what is gone)."""
    if not backends.TORCH.is_module(module):
        return module, {}, ""
    sample, gone = bare.bared(copy.deepcopy(module), layer_norms)
    return sample, bare.taken(module, layer_norms), gone


def of_module(module, d_model, n_heads):
    """Return the Trial of a torch module or Keras layer."""
    method = getattr(module, backends.of_module(module).method)
    return tried(target_of(module, n_heads), method, LAYER, d_model, program=module)


def of_trial(program, trial, name, options, heads=None):
    """Return the Entry of what a Trial has found out; ``heads``: of the Form."""
    around, words = surroundings(trial)
    signs = promise(trial)
    if len(signs) == 2:
        trial = trial._replace(plan=replace(trial.plan, causal=True))

    def made(plan):
        call = caller(plan, trial.target.n_heads)
        said = f"{name}{plan.said()}{entry.remark(plan)}{words}"
        return Entry(program, "layer", options | around | {"call": call}, said,
                     {"heads": heads, "square": plan.square})

    found = entry.entries(trial, made)
    if len(signs) != 1:
        return found
    causal = entry.entries(trial._replace(plan=replace(trial.plan, causal=True), fits=()), made)
    return found._replace(notes=(*found.notes, IS_CAUSAL.format(*signs)),
                          others=(*found.others, causal._replace(likely=False)))


def caller(plan, held):
    """Return ``call(module, x, memory, keep, n_heads=None)`` for the doctor, by a plan."""
    def call(module, x, memory, keep, n_heads=None):
        target = Target(module, x, n_heads or heads_of(module) or held)
        return carried_out(target, plan, plan.sides(x, memory), keep)
    return call


def about_norms(found, trial, whole, norms):
    """Return an Entry that says of the norms that were taken out what they do.

    ``whole``: the torch module with its norms, {name: class}.
    """
    if not norms:
        return found
    kinds = " and ".join(sorted(set(norms.values())))
    if trial.plan.causal:
        with_norms = trial._replace(target=target_of(whole, trial.target.n_heads))
        if changed(with_norms, np.s_[:, -1])[:, 0].any():  # outputs depend on later tokens
            return found._replace(leak=kinds)
    note = f"Its {kinds} was taken out and is not examined."
    return found._replace(notes=(*found.notes, note))
