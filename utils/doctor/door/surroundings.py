"""What is around the attention of a module: a residual connection, a LayerNorm."""

import re

import numpy as np

from ... import checks
from ..faulty.layer import normalised
from ..modules import guess, libraries, slots


def surroundings(trial, n_heads):
    """Return (options, words): is there a residual connection, is there a LayerNorm?

    Where W_v and W_o are zero, only what is around the attention is left.
    """
    module = trial.module
    keras = slots.framework(module) == "tensorflow"
    before = module.get_weights() if keras else {
        name: w.clone() for name, w in module.state_dict().items()}
    mask = trial.opened(trial.way) if trial.needed and trial.way else None
    try:
        held = guess.guess(module, trial.width, n_heads)
        for slot in held:
            if set(slot.letters) & {"v", "o"}:
                for one in slots.tensors(module, slot.name):
                    if one is not None:
                        one.assign(0 * one) if keras else one.data.zero_()
        left = trial.attended(trial.x, trial.memory, mask)
    except Exception:  # the roles cannot be guessed: the examination will say so
        return {}, ""
    finally:
        (module.set_weights if keras else module.load_state_dict)(before)
    found, x = {}, trial.x
    if _near(left, x):
        found["residual"] = True
    elif _near(left, normalised(x, -1)):
        found |= {"residual": True, "post_norm": True}
    if not found.get("post_norm") and libraries.norms(module):
        plain_out = trial.attended(x, trial.memory, mask) - (x if found else 0)
        moved = trial.attended(x + 1.0, trial.memory + 1.0, mask) - (x + 1.0 if found else 0)
        if _near(plain_out, moved):
            found["pre_norm"] = True
    words = [text for key, text in (("pre_norm", "a LayerNorm first"),
                                    ("residual", "x is added at the end"),
                                    ("post_norm", "a LayerNorm last")) if key in found]
    return found, f"; around the attention: {', '.join(words)}" if words else ""


def promise(trial):
    """Return (options, notes) if a name, or a triangle that a module holds, promises a causal mask.

    Only where it takes no mask and outputs depend on later tokens. If both say so, it is examined
    as causal.
    """
    if trial.causal or trial.masked or not trial.alone:
        return {}, ()
    buffers = getattr(trial.module, "buffers", list)()
    signs = [words for found, words in (
        (re.search("causal|masked", type(trial.module).__name__.lower()), "its name says so"),
        (any(map(_is_triangle, buffers)), "it holds a triangular mask")) if found]
    if len(signs) == 1:
        return {}, (f"Is it to be causal, as {signs[0]}? Its outputs depend on later tokens: "
                    "causal=True (in the shell, --causal) examines that.",)
    return ({"causal": True} if signs else {}), ()


def _is_triangle(array):
    """Return whether an array is a square mask, or several, of a triangle."""
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] < 4:
        return False
    first = checks.to_numpy(array.reshape(-1, *array.shape[-2:])[0])
    set_apart = first != first[0, -1]
    return any((set_apart == np.tril(np.ones_like(set_apart), k)).all() for k in (-1, 0, 1))


def _near(a, b):
    return a.shape == b.shape and np.abs(a - b).max() < 1e-3
