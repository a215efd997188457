"""What is around the attention of a module: a residual connection, a LayerNorm."""

import re

import numpy as np

from ... import checks
from .. import backends
from ..faulty.layer import normalised
from ..modules import guess, libraries, slots
from .call import each


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
