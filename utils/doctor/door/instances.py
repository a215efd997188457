"""A module that is built: called by the names of its arguments, without the norms around it."""

import copy

import numpy as np

from .. import _subject
from ..modules import bare, guess, slots
from .constructors import heads_of
from .entry import Entry
from .surroundings import promise, surroundings
from .trial import Trial


def of_instance(module, name, held=None):
    """Return the Entry of a module that is built, so its sizes cannot be chosen."""
    if not slots.framework(module):
        raise _subject.RefusalError("is neither a class, a torch module nor a Keras layer")
    held = held or heads_of(module)
    if not held:
        raise _subject.RefusalError("has no number of heads that can be read; pass n_heads=")
    d_model, whole, norms = guess.width(module, None), module, {}
    if slots.framework(module) == "torch":
        norms = bare.taken(module)
        module, gone = bare.bared(copy.deepcopy(module))
        name += f" ({gone})" if gone else ""
    trial = tried(module, d_model)
    heads = "one head" if held == 1 else f"{held} heads"
    said = f"{name} has d_model = {d_model} and {heads}, it is "
    return about_norms(entry(module, trial, said, {"n_heads": held}, held), trial, whole, norms)


def entry(program, trial, name, options, n_heads):
    """Return the Entry of what a Trial has found out; ``options`` may have the Form's "heads"."""
    around, words = surroundings(trial, n_heads)
    options = dict(options)
    heads = options.pop("heads", (1, None) if n_heads == 1 and "n_heads" not in options else None)
    promised, notes = promise(trial)
    form = {"heads": heads} if heads else {}
    form |= {"square": True} if trial.square else {}
    first, *others = [Entry(program, "layer", options | around | {
        "call": one.call, "self_attention": one.alone, "causal": one.causal,
        "masks": one.way.masks if one.way else "none"} | promised,
        f"{name}{one.said()}{words}", form,
        last=bool(one.masked) and one.way is None, sure=one.sure, notes=(*one.notes(), *notes),
        raises=one.raises if one.way is None else "", unasked=one.unasked())
        for one in trial.meanings()]
    return first._replace(others=tuple(others))


def tried(module, d_model):
    """Return the Trial of a torch module or Keras layer."""
    if slots.framework(module) == "torch":
        import torch
        module = copy.deepcopy(module).eval()  # the reader's own stays as it is
        weight = next(iter(module.parameters()), torch.zeros(1))
        return Trial(module, module.forward, torch.nn.Module.__call__, d_model, weight)
    from ... import frameworks
    return Trial(module, module.call, lambda layer, **given: layer(**given), d_model,
                 frameworks.tensorflow().constant(np.zeros(1, "float32")))


def about_norms(entry, trial, whole, norms):
    """Return an Entry that says of the norms that were taken out what they do.

    ``whole``: the torch module with its norms, {name: class}.
    """
    if not norms:
        return entry
    kinds = " and ".join(sorted(set(norms.values())))
    leak = kinds if trial.leaks(copy.deepcopy(whole).eval()) else ""
    note = f"Its {kinds} was taken out and is not examined."
    return entry._replace(leak=leak, notes=(*entry.notes, *([] if leak else [note])))
