"""A class that does not take every size, or has no weights."""

import inspect

from .. import _subject
from ..modules import slots
from .constructors import arguments, heads_around, heads_of, needs_heads
from .instances import of_instance, tried
from .kernels import kernel
from .names import roles_of

FIRST = ((12, 3), (12, 1))  # sizes that every class is to take, (d_model, n_heads)


def fixed(program, build, sample, name, size):
    """Return the Entry of a class that does not take every size or has no weights, or None."""
    d_model, n_heads = size
    torch = slots.framework(sample) == "torch"
    sides = set("qkv") <= set(roles_of(sample.forward if torch else sample.call).values())
    if torch and sides and not [*sample.parameters()]:
        return _without_weights(program, build, name, "torch")
    held = heads_of(sample)
    if held and held != n_heads:
        return of_instance(sample, program.__name__, held)
    if torch and size not in FIRST:
        return of_instance(sample, f"{name}it", n_heads)
    try:
        tried(sample, d_model)
    except _subject.RefusalError:
        other = _of_own_width(program, sample, d_model) if torch else None
        if not other:
            raise
        return other
    return _without_weights(program, build, name, "tensorflow") if (
        not torch and sides and not sample.weights) else None


def _of_own_width(program, sample, d_model):
    """Return the Entry of a class whose width its constructor does not choose, or None."""
    widths = {part.in_features for part in sample.modules() if hasattr(part, "in_features")}
    for own in sorted(widths - {d_model}, reverse=True):
        heads = next(n for n in (8, 6, 5, 4, 3, 2, 1) if own % n == 0)
        heads = heads if needs_heads(program) else 1
        try:
            given, built = arguments(program, own, heads)
            with _subject.refusing():
                made = program(**given)
            heads = heads_of(made) or heads_around(made) or heads
            return of_instance(made, f"Built as {program.__name__}({built}), it", heads)
        except _subject.RefusalError:
            continue
    return None


def _without_weights(program, build, name, framework):
    """Return the Entry of a class that is a kernel: it has no parameters."""
    def function(*sides, **named):
        q = next(side for role, side in zip(roles, sides, strict=False) if role == "q") if (
            sides) else named[next(key for key, role in roles.items() if role == "q")]
        made = build(q.shape[-1], 1)
        return (made.eval() if framework == "torch" else made)(*sides, **named)

    method = "forward" if framework == "torch" else "call"
    roles = roles_of(getattr(program, method), skip=1)
    sample = build(4, 1)
    function.__signature__ = inspect.signature(getattr(sample, method))
    function.__name__, function.program = program.__name__, program
    entry = kernel(function, (framework,))
    return entry._replace(said=name + entry.said[0].lower() + entry.said[1:])
