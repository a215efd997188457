"""What the arguments of a constructor may mean where their names do not say it."""

import itertools
from dataclasses import replace

from .. import _subject
from . import names
from .constructors import KINDS, arguments, heads_of
from .instances import of_module

OTHER = 7      # divides no d_model that is tried
MOST = 3       # unknown arguments, of which all combinations are tried


def guesses(program):
    """Yield {argument: one of KINDS}: {} and then what else may be meant, in turn.

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
    widths = [name for name, one in names.parameters(program).items()
              if one.default is None and names.WIDTH.fullmatch(names.plain(name))]
    yield from ({name: "d_model"} for name in widths)
    if len(widths) > 1:
        yield dict.fromkeys(widths, "d_model")


def unknown(program):
    """Return the names of the arguments of a constructor of which nothing is known."""
    found = {}
    for _ in names.parameters(program):
        try:
            arguments(program, 12, 3, found)
        except names.UnknownArgumentError as refusal:
            found[refusal.argument] = "d_model"
        except _subject.RefusalError:
            break
    return [*found]


def check(plan, sample):
    """Raise RefusalError for a module if arguments that were guessed are not its sizes.

    A module does not fit with another width or number of heads, and a length is that of one of
    its arrays.
    """
    sizes = [(name, kind) for name, kind in plan.meant if not isinstance(kind, bool)]
    if sizes and not (heads_of(sample) in (None, plan.n_heads)
                      and _width(plan, sample) == plan.d_model
                      and all(_is_size(plan, sample, *one) for one in sizes)):
        raise _subject.RefusalError(f"is no attention of width {plan.d_model} if built so")


def _is_size(plan, sample, name, kind):
    if kind == "a length":
        held = getattr(sample, "state_dict", dict)().values()
        return any(names.ROOM in w.shape for w in held)
    try:
        other = replace(plan, meant=(*plan.meant, (name, OTHER)))
        return _width(plan, other.made()) != plan.d_model
    except _subject.RefusalError:
        return True


def _width(plan, module):
    """Return how wide the output of a module is."""
    trial = of_module(module, plan.d_model, plan.n_heads)
    return trial.target.answer(trial.plan, trial.sides).shape[-1]
