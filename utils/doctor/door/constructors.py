"""How a class is built: what its constructor gets, and how many heads the object has."""

import contextlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...source import reading
from .. import _subject
from . import names

# What a number may be that a constructor takes.
KINDS = ("d_model", "n_heads", "d_model // n_heads", "a length")
OF_CONFIG = re.compile(r"\w*(Config|Configuration|Cfg|Conf|Args|Arguments|H?Params|Hyperparameters"
                       r"|Options|Dimensions|Dims)")  # names of classes


class Config:
    """A configuration object that knows the sizes by any name; as attributes, items or get."""

    def __init__(self, d_model, n_heads):
        self._sizes = d_model, n_heads

    def get(self, name, default=None):
        """Return what is known by this name, or the default."""
        found = names.by_name(name, *self._sizes)
        return default if found is None else found

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name, False)

    __getitem__ = __getattr__

    def __contains__(self, name):
        return self.get(name) is not None


def needs_heads(function):
    """Return whether a constructor takes a number of heads, or a configuration that may have it."""
    words = map(names.plain, names.signature(function).parameters)
    return any(names.HEADS.fullmatch(word) or names.CONFIG.fullmatch(word) for word in words)


def takes_width(function):
    """Return whether a constructor gets a width, or a configuration that may have it."""
    words = map(names.plain, names.signature(function).parameters)
    return any(names.CONFIG.fullmatch(word) or names.by_name(word, 12, 1) != names.by_name(
        word, 24, 1) for word in words)


@dataclass(frozen=True)
class BuildPlan:
    """How a class is built.

    ``meant``: ((argument, one of KINDS or a bool), …) of arguments whose names do not say it.
    """

    program: type
    d_model: int
    n_heads: int
    meant: tuple = ()

    def made(self, d_model=None, n_heads=None):
        """Return an object of this size, or another one. Raises RefusalError."""
        with _subject.refusing():
            return self.program(**arguments(self.program, d_model or self.d_model,
                                            n_heads or self.n_heads, self.meant))

    def said(self):
        """Return in words how it is built; … for an argument of which nothing is known."""
        try:
            given = arguments(self.program, self.d_model, self.n_heads, self.meant)
            how = ", ".join(f"{name}={_in_words(value)}" for name, value in given.items())
        except _subject.RefusalError:
            how = "…"
        return f"{self.program.__name__}({how})"


def arguments(function, d_model, n_heads, meant=()):
    """Return {name: value} for a constructor; raises RefusalError for an unknown name.

    ``meant``: as of a BuildPlan. An argument with a default keeps it if its name says nothing.
    """
    given, meant = {}, dict(meant)
    kinds = dict(zip(KINDS, (d_model, n_heads, d_model // n_heads, names.ROOM), strict=True))
    for name, one in names.parameters(function).items():
        if name in meant:
            given[name] = kinds.get(meant[name], meant[name])
        elif names.CONFIG.fullmatch(names.plain(name)):
            given[name] = _own_config(function, one, d_model, n_heads) or Config(d_model, n_heads)
        elif not _keeps_default(name, one):
            given[name] = _value(function, name, d_model, n_heads)
    return given


def _keeps_default(name, one):
    """Return whether an argument of a constructor is left out."""
    if one.default is one.empty:
        return False
    value = names.by_name(name, 12, 3)
    return value is None or (isinstance(value, bool) and name != "batch_first") or (
        one.default is None and bool(names.WIDTH.fullmatch(names.plain(name))))


def _value(function, name, d_model, n_heads):
    """Return what an argument without a default gets. Raises UnknownArgumentError."""
    value, kind = names.by_name(name, d_model, n_heads), names.weight_of(name)[0]
    if value is None and name in "qkv":
        value = d_model // n_heads
    if value is None and kind:  # its class gets others later
        value = np.zeros((d_model, d_model) if kind == "W" else d_model)
    if value is None:
        value = _beside(function, name, d_model // n_heads)
    if value is None:
        raise names.UnknownArgumentError(
            f"is built with {name}, and the doctor knows no value for that", name)
    return value


def _in_words(value):
    """Return an argument of a constructor as text."""
    if isinstance(value, Config):
        return "an object with the sizes"
    if OF_CONFIG.fullmatch(type(value).__name__):
        return f"a {type(value).__name__} with small sizes"
    if isinstance(value, np.ndarray):
        return "an array"
    return f"a {type(value).__name__}" if hasattr(value, "forward") else value


def _definitions(module):
    """Return the names that the file of a module defines, if it has one."""
    file = getattr(module, "__file__", None)
    return reading.definitions(Path(file)) if file else []


def _own_config(function, parameter, d_model, n_heads):
    """Return an object of the file's own class of configurations, with these sizes, or None."""
    home = sys.modules.get(getattr(function, "__module__", ""))
    kind = parameter.annotation
    if kind is parameter.empty:  # the only class in the file that is called so
        known = [name for name in _definitions(home) if OF_CONFIG.fullmatch(name)]
        kind = known[0] if len(known) == 1 else None
    with contextlib.suppress(Exception):  # a class may do anything; then a Config is enough
        kind = getattr(home, kind.strip("'\"")) if isinstance(kind, str) else kind
        if isinstance(kind, type) and OF_CONFIG.fullmatch(kind.__name__):
            made = kind(**arguments(kind, d_model, n_heads))
            for name in dir(made):
                value = names.by_name(name, d_model, n_heads)
                if {type(getattr(made, name)), type(value)} <= {int, float}:
                    setattr(made, name, value)
            return made
    return None


def _beside(function, name, d_head):
    """Return an attention without weights that is defined beside a class, if a name asks for it."""
    home = sys.modules.get(getattr(function, "__module__", ""))
    for other in _definitions(home) if names.INNER.fullmatch(names.plain(name)) else ():
        one = getattr(home, other, None)
        if not isinstance(one, type) or one is function or not hasattr(one, "forward"):
            continue
        try:
            made = one(**arguments(one, d_head, 1))
            if set("qkv") <= {*names.roles_of(made.forward).values()} and not [*made.parameters()]:
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
    methods = [getattr(kind, name, None) for name in ("__init__", "forward", "call")]
    used = {name for method in methods if hasattr(method, "__code__")
            for name in method.__code__.co_names}
    around = vars(sys.modules.get(kind.__module__, sys))
    return _number([{name: value for name, value in around.items() if name in used}])


def _number(homes):
    return next((value for home in homes for name, value in home.items() if type(value) is int
                 and value > 0 and names.HEADS.fullmatch(names.plain(name))), None)
