"""What the arguments of a constructor may mean where their names do not say it."""

import itertools
from dataclasses import replace

from .. import _subject
from . import names
from .constructors import KINDS, arguments

OTHER = 7      # divides no d_model that is tried
MOST = 3       # unknown arguments, of which all combinations are tried


def guesses(program):
    """Yield {argument: one of KINDS, or a bool}: {} and then what else may be meant, in turn.

    Those are the kinds of number that an unknown argument may be, or, where there is none, the
    width for optional arguments that are called so.
    """
    yield {}
    required = unknown(program)
    if required:
        kinds = itertools.product(KINDS, repeat=len(required)) if len(required) <= MOST else ()
        for some in sorted(kinds, key=lambda some: -len(set(some))):  # two are rarely the same
            yield dict(zip(required, some, strict=True))
        return
    widths = [name for name, one in names.signature(program).parameters.items()
              if one.default is None and names.WIDTH.fullmatch(names.plain(name))]
    yield from ({name: "d_model"} for name in widths)
    if len(widths) > 1:
        yield dict.fromkeys(widths, "d_model")


def unknown(program):
    """Return the names of the arguments of a constructor of which nothing is known."""
    found = {}
    for _ in names.signature(program).parameters:
        try:
            arguments(program, 12, 3, found)
        except names.UnknownArgumentError as refusal:
            found[refusal.argument] = "d_model"
        except _subject.RefusalError:
            break
    return [*found]


def flags(program):
    """Yield {flag: the other value} for each bool with a default that a constructor takes."""
    for name, one in names.signature(program).parameters.items():
        if isinstance(one.default, bool) and "bias" not in name and "first" not in name:
            yield {name: not one.default}


def are_sizes(plan, width):
    """Return whether the arguments of a module that were guessed are sizes as they should be.

    A module does not fit with another width or number of heads, and a length is that of one of
    its arrays. ``width(module)`` returns how wide its output is, or raises RefusalError.
    """
    right = width(plan.made())
    for name, kind in plan.meant:
        if kind == "a length":
            held = getattr(plan.made(), "state_dict", dict)().values()
            if not any(names.ROOM in w.shape for w in held):
                return False
        elif not isinstance(kind, bool):
            other = replace(plan, meant=tuple({**dict(plan.meant), name: OTHER}.items()))
            try:
                if width(other.made()) == right:
                    return False
            except _subject.RefusalError:
                continue
    return True
