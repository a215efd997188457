"""How the attention layers of PyTorch and Keras are called, and layers with the sequence first.

For these layers, the roles of the parts and the way to pass a mask are known.
"""

import inspect
import re
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from utils import frameworks
from utils.doctor import _subject
from utils.masks import conventions

# Arguments that make modules return their weights.
ASKING = ("need_weights", "return_weights", "return_attention", "return_attention_scores",
          "output_attentions")
OPEN = 40.0  # its sigmoid is 1 in every dtype
EPSILON = ("eps", "epsilon", "variance_epsilon")  # its names in LayerNorms


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
    if (type(module).__module__.startswith("keras.")
            and type(module).__name__ == "MultiHeadAttention"):
        names = zip("qkvo", ("query", "key", "value", "output"), strict=True)
        return KnownLayer(module.num_heads, module.num_heads * module.key_dim, _keras,
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
    """Return the epsilon of the first LayerNorm in a module, or None."""
    for part in norms(module):
        for name in EPSILON:
            if isinstance(getattr(part, name, None), float):
                return getattr(part, name)
    return None


def reset_norms(module):
    """Set the gain of every LayerNorm in a module to 1 and its bias to 0, as in the reference."""
    for part in norms(module):
        for name, value in ("weight", 1.0), ("bias", 0.0), ("gamma", 1.0), ("beta", 0.0):
            variable = getattr(part, name, None)
            if hasattr(variable, "assign"):
                variable.assign(np.full(variable.shape, value))
            elif variable is not None:
                variable.data.fill_(value)


def norms(module):
    """Return the LayerNorms in a module or Keras layer."""
    if hasattr(module, "modules"):
        parts = module.modules()
    else:  # a Keras layer
        parts = getattr(module, "_flatten_layers", list)()
    return [part for part in parts if "LayerNorm" in type(part).__name__]


def bared(module, layer_norms=False):
    """Return a torch module without its norms of tokens and its gates, and what they are in words.

    A norm becomes the identity, but one inside a head, and a LayerNorm unless ``layer_norms``: it
    is examined. A gate
    gives ``OPEN`` for all inputs. Learned sinks and tables of relative positions become 0, matrices
    of zeros become random, and factors of 0 become 1.
    """
    torch = sys.modules["torch"]
    module, gone = _without_norms(torch, module, layer_norms)
    words = [f"without its {' and '.join(gone)}"] if gone else []
    for name, part in [*module.named_modules()]:
        last = name.rpartition(".")[2]
        if re.fullmatch(r".*gate.*", last.lower()) and isinstance(part, torch.nn.Linear):
            part.forward = lambda x, n=part.out_features: x.new_full((*x.shape[:-1], n), OPEN)
            words.append("with its gate open")
    sinks = [parameter for name, parameter in module.named_parameters() if "sink" in name.lower()]
    for parameter in sinks:
        parameter.data.zero_()
    words += ["with its sinks at 0"] if sinks else []
    tables = [parameter for name, parameter in module.named_parameters()
              if of_positions(module, name)]
    words += ["with its relative positions at 0"] if tables else []
    zeros = {name: parameter for name, parameter in module.named_parameters()
             if not torch.nn.parameter.is_lazy(parameter) and not parameter.any()}
    for parameter in zeros.values():
        if parameter.ndim > 1:  # a projection that begins with zeros
            torch.nn.init.normal_(parameter, std=0.3)
    for parameter in tables:
        parameter.data.zero_()
    closed = [name for name, parameter in zeros.items() if parameter.numel() == 1]
    for name in closed:
        zeros[name].data.fill_(1.0)
    words += [f"with {name} at 1" for name in closed]
    return module, " and ".join(dict.fromkeys(words))


def of_positions(module, name):
    """Return whether a parameter of a torch module is a table, as of relative positions."""
    part = module.get_submodule(name.rpartition(".")[0])
    return "Embedding" in type(part).__name__ or bool(
        re.search(r"rel.*(bias|pos|table)|bias_table", name.lower()))


def _replace(module, name, part):
    owner, _, last = name.rpartition(".")
    setattr(module.get_submodule(owner), last, part)


def _without_norms(torch, module, layer_norms):
    """Return (the module, the names of the classes that are gone)."""
    linear = {part.in_features for part in module.modules() if hasattr(part, "in_features")}
    linear |= {part.in_channels for part in module.modules() if hasattr(part, "in_channels")}
    gone = []
    for name, part in [*module.named_modules()]:
        kind = type(part).__name__
        sizes = {tuple(w.shape) for w in part.parameters(recurse=False)} if "Norm" in kind else ()
        examined = "LayerNorm" in kind and not layer_norms
        if name and not examined and sizes and sizes <= {(n,) for n in linear}:
            _replace(module, name, torch.nn.Identity())
            gone.append(kind)
    return module, sorted(set(gone))


def plain(module, x, memory, keep, **asked):
    """Return ``module(x, memory, keep)``."""
    return module(*_given(module, x, memory, keep), **asked)


def plain_self(module, x, memory, keep, **asked):
    """Return ``module(x, keep)``."""
    return module(*_given(module, x, keep), **asked)


def _given(module, *args):
    """Return the arguments without a mask of None that Keras would take as a second mask."""
    names = [*inspect.signature(getattr(module, "call", len)).parameters]
    return args[:-1] if args[-1] is None and names[len(args) - 1:len(args)] == ["mask"] else args


def unmasked(module, x, memory, keep, **asked):
    """Return ``module(x, memory)``."""
    return module(x, memory, **asked)


def unmasked_self(module, x, memory, keep, **asked):
    """Return ``module(x)``."""
    return module(x, **asked)


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
