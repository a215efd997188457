"""How a program of other people is built and called, and what was assumed of it.

The doctor calls a layer as ``(x, memory, keep)`` and a kernel as ``(q, k, v, keep)``. Here the
arguments of other signatures are recognised by name. What a mask means is found out by trying: a
masked key must not matter, and another key must.
"""

from .. import backends
from . import names
from .adapter import adapter, of_jax
from .functions import function, kernel
from .layers import layer
from .names import UnknownArgumentError, signature

__all__ = ["UnknownArgumentError", "adapter", "arguments_of", "asks_first", "function", "kernel",
           "layer", "signature"]


def asks_first(program):
    """Return whether it must be found out how a program is called before it is examined.

    So it is with a module that is built, where a mask has another name than ``keep``, and where
    there are arguments of which the doctor's own call knows nothing.
    """
    if _of_library(type(program)) and not hasattr(program, "schema"):  # of torch.jit.script
        return False
    if backends.of_module(program) or of_jax(program):
        return True
    words = arguments_of(program)
    masks = [word for word in words if names.MASK.fullmatch(word)]
    if isinstance(program, type):   # called as (x, memory, keep), another argument would get keep
        further = len(words) > 2 and not (names.MEMORY.fullmatch(words[1]) and words[2] in masks)
    else:
        further = len(words) > 3 and words[3] not in masks and (
            names.SIDES["q"].fullmatch(words[0]))
    flags = [name for name, one in _parameters(program).items() if names.is_flag(name, one)]
    return bool(further or flags or (masks and masks[0] != "keep"))


def arguments_of(program):
    """Return the names of the arguments with which a program is called, or []."""
    if _of_library(program) and not hasattr(program, "schema"):
        return []
    return [names.plain(name) for name in _parameters(program) if name != "self"]


def _parameters(program):
    """Return {name: parameter} of a function, or of the method that calls objects of a class."""
    if isinstance(program, type):
        program = getattr(program, names.method_name(program), None)
    try:
        return names.signature(program).parameters
    except (TypeError, ValueError):
        return {}


def _of_library(program):
    return getattr(program, "__module__", "").startswith(("torch.", "keras."))
