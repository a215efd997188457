"""A class that does not take every size, or has no weights."""

import inspect

from .. import _subject, backends
from . import names
from .constructors import BuildPlan, heads_around, heads_of, needs_heads, takes_width
from .functions import kernel
from .instances import of_instance, of_module

FIRST = ((12, 3), (12, 1))  # sizes that every class is to take, (d_model, n_heads)


def fixed(plan, sample, name):
    """Return the Entry of a class that does not take every size or has no weights, or None."""
    backend = backends.of_module(sample)
    torch, method = backend is backends.TORCH, getattr(sample, backend.method)
    sides = set("qkv") <= {*names.roles_of(method).values()}
    if torch and sides and not [*sample.parameters()]:
        return _without_weights(plan, method, backend, name)
    if torch and not takes_width(plan.program):
        return _of_own_width(plan, sample)
    held = heads_of(sample)
    if held and held != plan.n_heads:
        return of_instance(sample, f"{plan.program.__name__} has", held)
    if torch and (plan.d_model, plan.n_heads) not in FIRST:
        return of_instance(sample, f"{name}with", plan.n_heads)
    try:
        of_module(sample, plan.d_model, plan.n_heads)
    except _subject.RefusalError:
        other = _of_own_width(plan, sample) if torch else None
        if not other:
            raise
        return other
    if torch or not sides or sample.weights:  # those of Keras are made by the first call
        return None
    return _without_weights(plan, method, backend, name)


def _of_own_width(plan, sample):
    """Return the Entry of a class whose width its constructor does not choose, or None."""
    widths = {part.in_features for part in sample.modules() if hasattr(part, "in_features")}
    for own in sorted(widths - ({plan.d_model} if takes_width(plan.program) else set()),
                      reverse=True):
        heads = next(n for n in (8, 6, 5, 4, 3, 2, 1) if own % n == 0)
        other = BuildPlan(plan.program, own, heads if needs_heads(plan.program) else 1)
        try:
            made = other.made()
            heads = heads_of(made) or heads_around(made) or other.n_heads
            return of_instance(made, f"Built as {other.said()}, with", heads)
        except _subject.RefusalError:
            continue
    return None


def _without_weights(plan, method, backend, name):
    """Return the Entry of a class that is a kernel: it has no parameters."""
    argument = next(one for one, role in names.roles_of(method).items() if role == "q")

    def function(**given):
        made = plan.made(given[argument].shape[-1], 1)
        return (made.eval() if backend is backends.TORCH else made)(**given)

    function.__signature__ = inspect.signature(method)
    function.__name__, function.program = plan.program.__name__, plan.program
    found = kernel(function, (backend.name,))
    return found._replace(said=name + found.said[0].lower() + found.said[1:])
