"""How the attention layers of PyTorch and Keras are called, and layers with the sequence first."""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import numpy as np

from ... import frameworks
from ...masks import conventions
from .. import _subject

# Arguments that make modules return their weights.
ASKING = ("need_weights", "return_weights", "return_attention", "return_attention_scores",
          "output_attentions")


class KnownLayer(NamedTuple):
    """What is known of a library's layer; ``call(module, x, memory, keep, **asked)``."""

    n_heads: int
    d_model: int
    call: Callable
    roles: dict
    packed: str | None = None


def known(module):
    """Return the KnownLayer of an ``nn.MultiheadAttention`` or Keras ``MultiHeadAttention``.

    Returns None for other classes, subclasses of these included, as they may do anything. Raises
    RefusalError if keys have another width than queries.
    """
    torch = sys.modules.get("torch")
    if torch and type(module) is torch.nn.MultiheadAttention:
        if module.in_proj_weight is None:
            raise _subject.RefusalError(
                f"takes keys of width {module.kdim} and queries of width {module.embed_dim}; the "
                "doctor examines layers with equal widths only")
        return KnownLayer(module.num_heads, module.embed_dim, _torch, {"o": "out_proj"},
                          "in_proj_weight")
    kind = type(module)
    if kind.__module__.startswith("keras.") and kind.__name__ == "MultiHeadAttention":
        return KnownLayer(module.num_heads, module.num_heads * module.key_dim, _keras, {
            "q": "_query_dense", "k": "_key_dense", "v": "_value_dense", "o": "_output_dense"})
    return None


def _torch(module, x, memory, keep, need_weights=False):
    if keep is not None:
        keep = keep if keep.ndim < 4 else keep.expand(len(x), -1, x.shape[1], memory.shape[1])
        keep = conventions.to_torch_mha(keep, module.num_heads)

    def ask(x, memory):
        return module(x, memory, memory, attn_mask=keep, need_weights=need_weights)
    out, weights = (ask if module.batch_first else sequence_first(ask))(x, memory)
    return (out, weights) if need_weights else out


def _keras(module, x, memory, keep, return_attention_scores=False):
    mask = None if keep is None else frameworks.tensorflow().constant(
        conventions.to_keras(keep, len(x), x.shape[1]))
    return module(x, memory, attention_mask=mask, return_attention_scores=return_attention_scores)


def epsilon(module):
    """Return the epsilon of the first LayerNorm in a module, or None."""
    names = ("eps", "epsilon", "variance_epsilon")
    found = [getattr(part, name, None) for part in norms(module) for name in names]
    return next((value for value in found if isinstance(value, float)), None)


def reset_norms(module):
    """Set the gain of every LayerNorm in a module to 1 and its bias to 0, as in the reference."""
    for part in norms(module):
        for name, value in ("weight", 1.0), ("bias", 0.0), ("gamma", 1.0), ("beta", 0.0):
            variable = getattr(part, name, None)
            if hasattr(variable, "assign"):
                variable.assign(np.full(variable.shape, value))
            elif variable is not None:
                variable.data.fill_(value)


@contextlib.contextmanager
def parameters_made():
    """Yield a list to which each parameter is appended that torch or Keras makes in the block."""
    made = []

    def noticing(owner, method):
        make = getattr(owner, method)

        def noticed(*args, **named):
            made.append(args)
            return make(*args, **named)
        return mock.patch.object(owner, method, noticed)

    with contextlib.ExitStack() as stack:
        if "torch" in sys.modules:
            stack.enter_context(noticing(sys.modules["torch"].nn.Module, "register_parameter"))
        if "keras" in sys.modules:
            stack.enter_context(noticing(sys.modules["keras"].layers.Layer, "add_weight"))
        yield made


def norms(module):
    """Return the LayerNorms in a module or Keras layer."""
    parts = getattr(module, "modules", getattr(module, "_flatten_layers", list))
    return [part for part in parts() if "LayerNorm" in type(part).__name__]


def _plain(module, x, memory, keep, masks, alone, **asked):
    """Return ``module(x, memory, keep)``, without memory if ``alone``, without keep if no masks."""
    given = [x] if alone else [x, memory]
    names = [*inspect.signature(getattr(module, "call", len)).parameters]
    # Keras would take a mask of None as a second mask.
    if masks and not (keep is None and names[len(given):len(given) + 1] == ["mask"]):
        given.append(keep)
    return module(*given, **asked)


# The usual calls: {(it takes masks, it is called without memory): call}.
PLAIN = {(masks, alone): functools.partial(_plain, masks=masks, alone=alone)
         for masks in (True, False) for alone in (True, False)}


def sequence_first(function, index=0):
    """Return a function on (b, i, e) that calls a function on (i, b, e).

    x and memory are the arguments ``index`` and ``index + 1``. The first result is transposed, too.
    """
    def batch_first(*args, **more):
        x, memory = args[index:index + 2]
        first = _transposed(x)
        sides = [first, first if memory is x else _transposed(memory)]
        out = function(*args[:index], *sides, *args[index + 2:], **more)
        if isinstance(out, (tuple, list)) and out:
            return (_transposed(out[0]), *out[1:])
        return _transposed(out)
    batch_first.program = function
    return batch_first


def _transposed(x):
    if getattr(x, "ndim", 0) < 2:
        return x
    if hasattr(x, "swapaxes"):
        x = x.swapaxes(0, 1)
        return x.contiguous() if hasattr(x, "contiguous") else np.ascontiguousarray(x)
    return frameworks.tensorflow().transpose(x, [1, 0, *range(2, x.ndim)])
