"""A torch module or Keras layer as people write it: built and called by its arguments' names."""

import copy

from .. import _subject
from ..modules import bare, guess, libraries, slots
from . import objects
from .constructors import arguments, heads_of, needs_heads
from .fixed import FIRST, fixed
from .guesses import are_sizes, flags, guesses
from .instances import about_norms, entry, of_instance, tried

GROUPED = (6, 4)  # heads and their width, for a class that may have fewer heads of k and v
SIZES = (FIRST[0], (12, 2), (16, 4), (64, 8), (512, 8), FIRST[1])   # d_model, heads; in turn


def layer(program, n_heads=None):
    """Return the Entry of a class, a torch module or a Keras layer.

    ``n_heads``: those of a module, if its attributes do not tell. Raises RefusalError with what
    went wrong in the first size.
    """
    if not isinstance(program, type):
        return of_instance(program, type(program).__name__, n_heads)
    problem = None
    for meant in guesses(program):
        try:
            return _with_flags(program, meant)
        except _subject.RefusalError as refusal:
            problem = problem or refusal
    raise problem


def _with_flags(program, meant):
    """Return the Entry of a class; where its mask does not mask, with a flag that lets it mask."""
    found = _of_sizes(program, meant)
    for flag in () if found.sure else flags(program):
        try:
            other = _of_sizes(program, meant | flag)
        except _subject.RefusalError:
            continue
        if other.sure:
            (name, value), = flag.items()
            note = f"Its mask masks only with {name}={value}, which is not the default."
            return other._replace(notes=(note, *other.notes))
    return found


def _of_sizes(program, meant):
    """Return the Entry of a class in the first of SIZES in which it can be examined."""
    problem = None
    heads = needs_heads(program) or "n_heads" in meant.values()
    sizes = SIZES if heads else dict.fromkeys((d, 1) for d, _ in SIZES)
    for d_model, n_heads in [*sizes][:1 if meant else None]:
        try:
            return _of_class(program, d_model, n_heads, meant)
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


def _of_class(program, d_model, n_heads, meant, layer_norms=False):
    """Return the Entry of a class that is built in this size.

    ``meant``: the meanings of further arguments. ``layer_norms``: whether its LayerNorms become the
    identity. If it has some, this is a further Entry, for a layer in which they are neither the
    first nor the last.
    """
    built = arguments(program, d_model, n_heads, meant)[1]

    def build(d_model, n_heads, meant=meant):
        with _subject.refusing():
            return program(**arguments(program, d_model, n_heads, meant)[0])

    whole = sample = build(d_model, n_heads)
    name = f"Built as {program.__name__}({built}), "
    framework = slots.framework(sample)
    if not framework:
        return objects.layer(program, sample, d_model, n_heads, name)
    norms = {}
    if framework == "torch":
        norms = bare.taken(sample, layer_norms)
        sample, gone = bare.bared(copy.deepcopy(whole), layer_norms)
        name += f"{gone}, " if gone else ""
    if meant:
        _check_guess(meant, build, sample, (d_model, n_heads))
    found = fixed(program, build, sample, name, (d_model, n_heads))
    if found:
        return found

    def bared(d_model, n_heads):
        made = build(d_model, n_heads)
        return bare.bared(made, layer_norms)[0] if framework == "torch" else made

    bared.__name__ = program.__name__
    trial = tried(sample, d_model)
    form = {"heads": GROUPED} if framework == "torch" and _grouped(bared) else {}
    name += f"and with {GROUPED[0]} heads of q and 2 of k and v, " if form else ""
    found = about_norms(entry(bared, trial, name, form, n_heads), trial, whole, norms)
    further = [entry(bared, one, name, form, n_heads) for one in trial.further()]
    if framework == "torch" and libraries.norms(sample) and not layer_norms:
        further.append(_of_class(program, d_model, n_heads, meant, layer_norms=True))
    guessed = [f"{name} = {kind}" for name, kind in meant.items() if not isinstance(kind, bool)]
    notes = [f"What this means is guessed: {', '.join(guessed)}."] if guessed else []
    return found._replace(others=(*found.others, *(one._replace(last=True) for one in further)),
                          notes=(*found.notes, *notes))


def _check_guess(meant, build, sample, size):
    """Raise RefusalError for a class whose arguments were guessed, if they are no such sizes."""
    d_model, n_heads = size

    def width(module):
        return tried(module, d_model).width

    sizes = [kind for kind in meant.values() if not isinstance(kind, bool)]
    if sizes and not (heads_of(sample) in (None, n_heads) and width(sample) == d_model and (
            are_sizes(meant, lambda meant: build(*size, meant), width))):
        raise _subject.RefusalError(f"is no attention of width {d_model} if built so")


def _grouped(build):
    """Return whether a torch module has fewer heads of k and v, where it may have two or more."""
    n_heads, d_head = GROUPED
    try:
        made = build(n_heads * d_head, n_heads)
        return any(slot.kv > 1 for slot in guess.guess(made, n_heads * d_head, n_heads))
    except Exception:  # it does not take this size, or the roles cannot be guessed
        return False
