"""How the attention layers of PyTorch and Keras are asked, and layers that put the sequence first.

Nobody needs to say for them which part plays which role, or how a mask is handed over.
"""

import inspect
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from utils import frameworks
from utils.doctor import _subject
from utils.masks import conventions

# Arguments by which modules are asked for their weights.
ASKING = ("need_weights", "return_weights", "return_attention", "return_attention_scores",
          "output_attentions")
EPSILON = ("eps", "epsilon", "variance_epsilon")  # what LayerNorms call it


class Known(NamedTuple):
    """What need not be said of a layer; ``call(module, x, memory, keep, **asked)``."""

    n_heads: int
    d_model: int
    call: Callable
    roles: dict
    packed: str | None = None


def known(module):
    """Return the Known of an ``nn.MultiheadAttention`` or a Keras ``MultiHeadAttention``, or None.

    Others are None, those derived from these too: they may do anything. Raises RefusalError for
    keys of another width than queries.
    """
    torch = sys.modules.get("torch")
    if torch and type(module) is torch.nn.MultiheadAttention:
        if module.in_proj_weight is None:
            raise _subject.RefusalError(
                f"takes keys of width {module.kdim} beside queries of width {module.embed_dim}; "
                "only one width can be examined")
        return Known(module.num_heads, module.embed_dim, _torch, {"o": "out_proj"},
                     "in_proj_weight")
    if (type(module).__module__.startswith("keras.")
            and type(module).__name__ == "MultiHeadAttention"):
        names = zip("qkvo", ("query", "key", "value", "output"), strict=True)
        return Known(module.num_heads, module.num_heads * module.key_dim, _keras,
                     {letter: f"_{name}_dense" for letter, name in names})
    return None


def _torch(module, x, memory, keep, need_weights=False):
    mask = keep
    if keep is not None:
        keep = keep if keep.ndim < 4 else keep.expand(len(x), -1, x.shape[1], memory.shape[1])
        mask = conventions.to_torch_mha(keep, module.num_heads)

    def ask(x, memory):
        return module(x, memory, memory, attn_mask=mask, need_weights=need_weights)
    out, weights = (ask if module.batch_first else sequence_first(ask))(x, memory)
    return (out, weights) if need_weights else out


def _keras(module, x, memory, keep, return_attention_scores=False):
    mask = None if keep is None else frameworks.tensorflow().constant(
        conventions.to_keras(keep, len(x), x.shape[1]))
    return module(x, memory, attention_mask=mask, return_attention_scores=return_attention_scores)


def epsilon(module):
    """Return what the first LayerNorm in a module adds to the variance, or None."""
    return next((getattr(part, name) for part in _norms(module) for name in EPSILON
                 if isinstance(getattr(part, name, None), float)), None)


def unlearned(module):
    """Set every LayerNorm in a module to a gain of 1 and a bias of 0, as in the reference."""
    for part in _norms(module):
        for name, value in ("weight", 1.0), ("bias", 0.0), ("gamma", 1.0), ("beta", 0.0):
            variable = getattr(part, name, None)
            if hasattr(variable, "assign"):
                variable.assign(np.full(variable.shape, value))
            elif variable is not None:
                variable.data.fill_(value)


def _norms(module):
    parts = module.modules() if hasattr(module, "modules") else getattr(
        module, "_flatten_layers", list)()
    return [part for part in parts if "LayerNorm" in type(part).__name__]


def plain(module, x, memory, keep, **asked):
    """Return what a module answers that is called as ``module(x, memory, keep)``."""
    return module(*_given(module, x, memory, keep), **asked)


def plain_self(module, x, memory, keep, **asked):
    """Return what a module answers that is called as ``module(x, keep)``."""
    return module(*_given(module, x, keep), **asked)


def _given(module, *args):
    """Return the arguments, less a mask of None that Keras would take for a second one."""
    names = [*inspect.signature(getattr(module, "call", len)).parameters]
    return args[:-1] if args[-1] is None and names[len(args) - 1:len(args)] == ["mask"] else args


def unmasked(module, x, memory, keep, **asked):
    """Return what a module answers that is called as ``module(x, memory)``."""
    return module(x, memory, **asked)


def unmasked_self(module, x, memory, keep, **asked):
    """Return what a module answers that is called as ``module(x)``."""
    return module(x, **asked)


def sequence_first(function, place=0):
    """Return the function as it is for (b, i, e) of one for (i, b, e).

    x and memory are its arguments ``place`` and the next; of what it returns, the first is turned.
    """
    def turned(*args, **more):
        x, memory = args[place:place + 2]
        sides = [_turned(x)]
        sides += sides if memory is x else [_turned(memory)]
        out = function(*args[:place], *sides, *args[place + 2:], **more)
        if isinstance(out, (tuple, list)) and out:
            return (_turned(out[0]), *out[1:])
        return _turned(out)
    turned.program = function
    return turned


def _turned(x):
    if getattr(x, "ndim", 0) < 2:
        return x
    if hasattr(x, "swapaxes"):
        x = x.swapaxes(0, 1)
        return x.contiguous() if hasattr(x, "contiguous") else np.ascontiguousarray(x)
    return frameworks.tensorflow().transpose(x, [1, 0, *range(2, x.ndim)])
