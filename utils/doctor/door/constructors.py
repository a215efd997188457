"""How a class is built: what its constructor gets, and how many heads the object has."""

import sys
from pathlib import Path

import numpy as np

from utils.doctor import _source, _subject
from utils.doctor.door import names


class Config:
    """A configuration object that knows the sizes by any name; as attributes, items or get."""

    def __init__(self, d_model, n_heads):
        self._sizes = d_model, n_heads

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = names.by_name(name, *self._sizes)
        return False if found is None else found

    __getitem__ = __getattr__

    def __contains__(self, name):
        return names.by_name(name, *self._sizes) is not None

    def get(self, name, default=None):
        """Return what is known by this name, or the default."""
        found = names.by_name(name, *self._sizes)
        return default if found is None else found


def needs_heads(function):
    """Return whether a constructor takes a number of heads, or a configuration that may have it."""
    return any(names.HEADS.fullmatch(names.plain(name)) or names.CONFIG.fullmatch(names.plain(name))
               for name in names.signature(function).parameters)


def arguments(function, d_model, n_heads):
    """Return ({name: value}, text) for a constructor; raises RefusalError for an unknown name."""
    given = {}
    for name, one in names.signature(function).parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        if names.CONFIG.fullmatch(names.plain(name)):
            given[name] = Config(d_model, n_heads)
            continue
        value = names.by_name(name, d_model, n_heads)
        fixed = one.default is not one.empty and (
            value is None or (isinstance(value, bool) and name != "batch_first"))
        if fixed or (one.default is None and names.WIDTH.fullmatch(names.plain(name))):
            continue
        value = d_model // n_heads if value is None and name in "qkv" else value
        if value is None and names.letter_of(name, names.WEIGHT):
            value = np.zeros((d_model, d_model))  # its class gets others later
        elif value is None and names.letter_of(name, names.BIAS):
            value = np.zeros(d_model)
        if value is None:
            value = _beside(function, name, d_model // n_heads)
        if value is None:
            raise names.UnknownArgumentError(
                f"is built with {name}, of which the doctor knows nothing")
        given[name] = value
    return given, ", ".join(f"{name}={_in_words(value)}" for name, value in given.items())


def _in_words(value):
    """Return an argument of a constructor as text."""
    if isinstance(value, Config):
        return "an object with the sizes"
    if isinstance(value, np.ndarray):
        return "an array"
    return f"a {type(value).__name__}" if hasattr(value, "forward") else value


def _beside(function, name, d_head):
    """Return an attention without weights that is defined beside a class, for its argument.

    None if the name does not ask for it, or there is none.
    """
    file = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
    if not file or not names.INNER.fullmatch(names.plain(name)):
        return None
    module = sys.modules[function.__module__]
    for other in _source.definitions(Path(file)):
        one = getattr(module, other, None)
        if not isinstance(one, type) or one is function or not hasattr(one, "forward"):
            continue
        try:
            made = one(**arguments(one, d_head, 1)[0])
            if set("qkv") <= set(names.roles_of(one.forward, skip=1).values()) and not [
                    *made.parameters()]:
                return made
        except (_subject.RefusalError, TypeError, ValueError):
            continue
    return None


def heads_of(module):
    """Return the number of heads that a module knows by its name, or None."""
    parts = module.modules() if hasattr(module, "modules") else [module]
    return _number([getattr(part, "__dict__", {}) for part in parts])


def heads_around(module):
    """Return the number of heads in a global that the code of a module's class uses, or None."""
    kind = type(module)
    used = {name for method in ("__init__", "forward", "call") if hasattr(kind, method)
            and hasattr(getattr(kind, method), "__code__")
            for name in getattr(kind, method).__code__.co_names}
    around = vars(sys.modules.get(kind.__module__, sys))
    return _number([{name: value for name, value in around.items() if name in used}])


def _number(homes):
    return next((value for home in homes for name, value in home.items() if type(value) is int
                 and value > 0 and names.HEADS.fullmatch(names.plain(name))), None)
