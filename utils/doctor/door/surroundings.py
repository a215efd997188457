"""What is around the attention of a module: a residual connection, a LayerNorm."""

import numpy as np

from utils.doctor.faulty.layer import normalised
from utils.doctor.modules import guess, libraries, slots


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


def _near(a, b):
    return a.shape == b.shape and np.abs(a - b).max() < 1e-3
