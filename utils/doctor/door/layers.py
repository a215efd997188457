"""A torch module or Keras layer as people write it: built and called by its arguments' names."""

import copy
import inspect

import numpy as np

from utils.doctor import _subject
from utils.doctor.door import objects
from utils.doctor.door.constructors import arguments, heads_around, heads_of, needs_heads
from utils.doctor.door.entry import Entry
from utils.doctor.door.kernels import kernel
from utils.doctor.door.names import roles_of
from utils.doctor.door.surroundings import surroundings
from utils.doctor.door.trial import Trial
from utils.doctor.modules import bare, guess, libraries, slots

GROUPED = (6, 4)  # heads and their width, for a class that may have fewer heads of k and v
SIZES = ((12, 3), (12, 2), (16, 4), (64, 8), (512, 8), (12, 1))   # d_model, heads; tried in turn


def layer(program):
    """Return the Entry of a class, a torch module or a Keras layer.

    Raises RefusalError with what went wrong in the first size.
    """
    if not isinstance(program, type):
        return _of_instance(program, type(program).__name__)
    problem = None
    sizes = SIZES if needs_heads(program) else dict.fromkeys((d, 1) for d, _ in SIZES)
    for d_model, n_heads in sizes:
        try:
            return _of_class(program, d_model, n_heads)
        except _subject.RefusalError as refusal:
            refusal.tried = f"Tried as {program.__name__}({_given(program, d_model, n_heads)})"
            problem = problem or refusal
    raise problem


def _given(program, d_model, n_heads):
    """Return the arguments of a constructor in words; … for one of which nothing is known."""
    try:
        return arguments(program, d_model, n_heads)[1]
    except _subject.RefusalError:
        return "…"


def _of_class(program, d_model, n_heads, layer_norms=False):
    """Return the Entry of a class that is built in this size.

    ``layer_norms``: whether its LayerNorms become the identity. If it has some, this is a further
    Entry, for a layer in which they are neither the first nor the last.
    """
    given, built = arguments(program, d_model, n_heads)
    with _subject.refusing():
        sample = program(**given)
    name = f"Built as {program.__name__}({built}), "
    framework = slots.framework(sample)
    if not framework:
        return objects.layer(program, sample, d_model, n_heads, name)
    if framework == "torch":
        sample, gone = bare.bared(sample, layer_norms)
        name += f"{gone}, " if gone else ""
    entry = _fixed(program, sample, name, (d_model, n_heads))
    if entry:
        return entry

    def build(d_model, n_heads):
        made = program(**arguments(program, d_model, n_heads)[0])
        return bare.bared(made, layer_norms)[0] if framework == "torch" else made

    build.__name__ = program.__name__
    trial = tried(sample, d_model)
    form = {"heads": GROUPED} if framework == "torch" and _grouped(build) else {}
    name += f"and with {GROUPED[0]} heads of q and 2 of k and v, " if form else ""
    entry = _entry(build, trial, name, form, n_heads)
    further = [_entry(build, trial.exchanged(), name, form, n_heads)] if trial.exchanged() else []
    if framework == "torch" and libraries.norms(sample) and not layer_norms:
        further.append(_of_class(program, d_model, n_heads, layer_norms=True))
    return entry._replace(others=(*entry.others, *(one._replace(last=True) for one in further)))


def _grouped(build):
    """Return whether a torch module has fewer heads of k and v, where it may have two or more."""
    n_heads, d_head = GROUPED
    try:
        made = build(n_heads * d_head, n_heads)
        return any(slot.kv > 1 for slot in guess.guess(made, n_heads * d_head, n_heads))
    except Exception:  # it does not take this size, or the roles cannot be guessed
        return False


def _fixed(program, sample, name, size):
    """Return the Entry of a class that does not take every size or has no weights, or None."""
    d_model, n_heads = size
    torch = slots.framework(sample) == "torch"
    sides = set("qkv") <= set(roles_of(sample.forward if torch else sample.call).values())
    if torch and sides and not [*sample.parameters()]:
        return _without_weights(program, name, "torch")
    held = heads_of(sample)
    if held and held != n_heads:
        return _of_instance(sample, program.__name__, held)
    if torch and size not in (SIZES[0], (SIZES[0][0], 1)):
        return _of_instance(sample, f"{name}it", n_heads)
    try:
        tried(sample, d_model)
    except _subject.RefusalError:
        fixed = _of_own_width(program, sample, d_model) if torch else None
        if not fixed:
            raise
        return fixed
    return _without_weights(program, name, "tensorflow") if (
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
            return _of_instance(made, f"Built as {program.__name__}({built}), it", heads)
        except _subject.RefusalError:
            continue
    return None


def _without_weights(program, name, framework):
    """Return the Entry of a class that is a kernel: it has no parameters."""
    def function(*sides, **named):
        q = next(side for role, side in zip(roles, sides, strict=False) if role == "q") if (
            sides) else named[next(key for key, role in roles.items() if role == "q")]
        made = program(**arguments(program, q.shape[-1], 1)[0])
        return (made.eval() if framework == "torch" else made)(*sides, **named)

    method = "forward" if framework == "torch" else "call"
    roles = roles_of(getattr(program, method), skip=1)
    sample = program(**arguments(program, 4, 1)[0])
    function.__signature__ = inspect.signature(getattr(sample, method))
    function.__name__, function.program = program.__name__, program
    entry = kernel(function, (framework,))
    return entry._replace(said=name + entry.said[0].lower() + entry.said[1:])


def _of_instance(module, name, held=None):
    """Return the Entry of a module that is built, so its sizes cannot be chosen."""
    if not slots.framework(module):
        raise _subject.RefusalError("is neither a class, a torch module nor a Keras layer")
    held = held or heads_of(module)
    if not held:
        raise _subject.RefusalError("has no number of heads that can be read; pass n_heads=")
    d_model = guess.width(module, None)
    if slots.framework(module) == "torch":
        module, gone = bare.bared(copy.deepcopy(module))
        name += f" ({gone})" if gone else ""
    trial = tried(module, d_model)
    heads = "one head" if held == 1 else f"{held} heads"
    said = f"{name} has d_model = {d_model} and {heads}, it is "
    return _entry(module, trial, said, {"n_heads": held}, held)


def _entry(program, trial, name, options, n_heads):
    """Return the Entry of what a Trial has found out; ``options`` may have the Form's "heads"."""
    around, words = surroundings(trial, n_heads)
    options = dict(options)
    heads = options.pop("heads", (1, None) if n_heads == 1 and "n_heads" not in options else None)
    form = {"heads": heads} if heads else {}
    form |= {"square": True} if trial.square else {}
    first, *others = [Entry(program, "layer", options | around | {
        "call": one.call, "self_attention": one.alone, "causal": one.causal,
        "masks": one.way.masks if one.way else "none"}, f"{name}{one.said()}{words}", form,
        last=bool(one.masked) and one.way is None)
        for one in trial.meanings()]
    return first._replace(others=tuple(others))


def tried(module, d_model):
    """Return the Trial of a torch module or Keras layer."""
    if slots.framework(module) == "torch":
        import torch
        module = copy.deepcopy(module).eval()  # the reader's own stays as it is
        weight = next(iter(module.parameters()), torch.zeros(1))
        return Trial(module, module.forward, torch.nn.Module.__call__, d_model, weight)
    from utils import frameworks
    return Trial(module, module.call, lambda layer, **given: layer(**given), d_model,
                 frameworks.tensorflow().constant(np.zeros(1, "float32")))
