"""A module that is built: how it is called, and what is around its attention."""

import copy
import re
from dataclasses import replace

import numpy as np

from ... import checks
from .. import _subject, backends
from ..faulty.layer import normalised
from ..modules import bare, guess, libraries, slots
from . import entry
from .call import Target, carried_out, each, target_of
from .constructors import heads_of
from .entry import Entry
from .plan import LAYER
from .trial import changed, tried

IS_CAUSAL = ("Is it to be causal, as {}? Its outputs depend on later tokens: `causal=True` "
             "examines that.")


def of_instance(module, begin, held=None):
    """Return the Entry of a module that is built, so its sizes cannot be chosen.

    ``begin``: the words before its sizes, such as "X has".
    """
    if not backends.of_module(module):
        raise _subject.RefusalError("is neither a class, a torch module nor a Keras layer")
    held = held or heads_of(module)
    if not held:
        raise _subject.RefusalError("has no number of heads that can be read; pass `n_heads=…`")
    d_model = guess.width(module, None)
    sample, norms, gone = without_norms(module)
    gone = f" ({gone})" if gone else ""
    trial = of_module(sample, d_model, held)
    heads = "one head" if held == 1 else f"{held} heads"
    said = f"{begin} d_model = {d_model} and {heads}{gone}, "
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
        def call(module, x, memory, keep, n_heads=None):
            target = Target(module, x, n_heads or heads_of(module) or trial.target.n_heads)
            return carried_out(target, plan, plan.sides(x, memory), keep)

        said = f"{name}{plan.said()}{entry.remark(plan)}{words}"
        return Entry(program, "layer", options | around | {"call": call}, said,
                     {"heads": heads, "square": plan.square})

    found = entry.entries(trial, made)
    if len(signs) != 1:
        return found
    causal = entry.entries(trial._replace(plan=replace(trial.plan, causal=True), fits=()), made)
    return found._replace(notes=(*found.notes, IS_CAUSAL.format(*signs)),
                          others=(*found.others, causal._replace(likely=False)))


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


def surroundings(trial):
    """Return (options, words): is there a residual connection, is there a LayerNorm?

    Where W_v and W_o are zero, only what is around the attention is left.
    """
    module, n_heads = trial.target.module, trial.target.n_heads
    keras = backends.TENSORFLOW.is_module(module)
    before = module.get_weights() if keras else {
        name: w.clone() for name, w in module.state_dict().items()}
    try:
        held = guess.guess(module, trial.sides[0].shape[-1], n_heads)
        for slot in held:
            if set(slot.letters) & {"v", "o"}:
                for one in slots.tensors(module, slot.name):
                    if one is not None:
                        one.assign(0 * one) if keras else one.data.zero_()
        left = trial.target.answer(trial.plan, trial.sides)
    except Exception:  # the roles cannot be guessed: the examination will say so
        return {}, ""
    finally:
        (module.set_weights if keras else module.load_state_dict)(before)
    found, x = {}, trial.sides[0]
    if _near(left, x):
        found["residual"] = True
    elif _near(left, normalised(x, -1)):
        found |= {"residual": True, "post_norm": True}
    if not found.get("post_norm") and libraries.norms(module):
        outs = [trial.target.answer(trial.plan, sides) - (sides[0] if found else 0) for sides in (
            trial.sides, each(lambda side: side + 1.0, trial.sides))]
        if _near(*outs):
            found["pre_norm"] = True
    words = [text for key, text in (("pre_norm", "a LayerNorm first"),
                                    ("residual", "x is added at the end"),
                                    ("post_norm", "a LayerNorm last")) if key in found]
    return found, f"; around the attention: {', '.join(words)}" if words else ""


def promise(trial):
    """Return the signs that a module is to be causal, in words: its name, a triangle that it holds.

    Only where it takes no mask and outputs depend on later tokens.
    """
    plan, module = trial.plan, trial.target.module
    if plan.causal or plan.masked or plan.flags or trial.both or not plan.alone:
        return []
    buffers = getattr(module, "buffers", list)()
    return [words for found, words in (
        (re.search("causal|masked", type(module).__name__.lower()), "its name says so"),
        (any(map(_is_triangle, buffers)), "it holds a triangular mask")) if found]


def _is_triangle(array):
    """Return whether an array is a square mask, or several, of a triangle."""
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] < 4:
        return False
    first = checks.to_numpy(array.reshape(-1, *array.shape[-2:])[0])
    set_apart = first != first[0, -1]
    return any((set_apart == np.tril(np.ones_like(set_apart), k)).all() for k in (-1, 0, 1))


def _near(a, b):
    return a.shape == b.shape and np.abs(a - b).max() < 1e-3
