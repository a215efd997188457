"""A torch module or Keras layer as people write it: built and called by its arguments' names."""

from dataclasses import replace

from .. import _subject, backends
from ..modules import bare, guess, libraries
from . import names, objects
from .adapter import of_jax
from .constructors import BuildPlan, needs_heads
from .fixed import FIRST, fixed
from .guesses import check, guesses
from .instances import about_norms, of_instance, of_module, of_trial, without_norms

GROUPED = (6, 4)  # heads and their width, for a class that may have fewer heads of k and v
SIZES = (FIRST[0], (12, 2), (16, 4), (64, 8), (512, 8), FIRST[1])   # d_model, heads; in turn


def layer(program, n_heads=None):
    """Return the Entry of a class, a torch module or a Keras layer.

    ``n_heads``: those of a module, if its attributes do not tell. Raises RefusalError with what
    went wrong in the first size.
    """
    if not isinstance(program, type):
        return of_instance(program, f"{type(program).__name__} has", n_heads)
    library = of_jax(program)
    if library:
        refusal = _subject.RefusalError(f"is a layer of {library.capitalize()}, which the doctor "
                                        "does not examine; functions of jax.numpy it does")
        refusal.tried = "It was not called"
        raise refusal
    found, problem = [], None
    for meant in guesses(program):
        try:
            found.append(_with_flags(program, meant))
        except _subject.RefusalError as refusal:
            problem = problem or refusal
        if found and not meant:
            break
    if not found:
        raise problem
    return found[0]._replace(others=(*found[0].others, *found[1:]))


def _with_flags(program, meant):
    """Return the Entry of a class; where its mask does not mask, with a flag that lets it mask."""
    found = _of_sizes(program, meant)
    flags = {} if found.sure else {
        name: not one.default for name, one in names.parameters(program).items()
        if isinstance(one.default, bool) and "bias" not in name and "first" not in name}
    for name, value in flags.items():
        try:
            other = _of_sizes(program, meant | {name: value})
        except _subject.RefusalError:
            continue
        if other.sure:
            note = f"Its mask masks only with {name}={value}, which is not the default."
            return other._replace(notes=(note, *other.notes))
    return found


def _of_sizes(program, meant):
    """Return the Entry of a class in the first of SIZES in which it can be examined."""
    problem = None
    heads = needs_heads(program) or "n_heads" in meant.values()
    sizes = SIZES if heads else dict.fromkeys((d, 1) for d, _ in SIZES)
    for d_model, n_heads in [*sizes][:1 if meant else None]:
        plan = BuildPlan(program, d_model, n_heads, tuple(meant.items()))
        try:
            return _of_class(plan)
        except _subject.RefusalError as refusal:
            refusal.tried = "It was not built" if "…" in plan.said() else f"Tried as {plan.said()}"
            problem = problem or refusal
    raise problem


def _of_class(plan, layer_norms=False):
    """Return the Entry of a class built by a plan; with ``layer_norms``, these are left out."""
    whole = plan.made()
    name = f"Built as {plan.said()}, "
    backend = backends.of_module(whole)
    around = None if backend else _adopted(plan.program, whole)
    if around:
        return _of_class(replace(plan, program=around), layer_norms)
    if not backend:
        return objects.layer(plan, whole, name)
    sample, norms, gone = without_norms(whole, layer_norms)
    name += f"{gone}, " if gone else ""
    check(plan, sample)
    found = fixed(plan, sample, name)
    if found:
        return found
    torch = backend is backends.TORCH

    def build(d_model, n_heads):
        made = plan.made(d_model, n_heads)
        return bare.bared(made, layer_norms)[0] if torch else made

    build.__name__ = plan.program.__name__
    heads = (1, None) if plan.n_heads == 1 else None
    if torch and _grouped(build):
        heads = GROUPED
        name += f"and with {GROUPED[0]} heads of q and 2 of k and v, "
    trial = of_module(sample, plan.d_model, plan.n_heads)
    found = about_norms(of_trial(build, trial, name, {}, heads), trial, whole, norms)
    further = []
    if torch and libraries.norms(sample) and not layer_norms:  # they may be neither first nor last
        further = [_of_class(plan, layer_norms=True)._replace(likely=False)]
    guessed = [f"{one} = {kind}" for one, kind in plan.meant if not isinstance(kind, bool)]
    notes = [f"Guessed, as the names do not say it: {', '.join(guessed)}."] if guessed else []
    return found._replace(others=(*found.others, *further), notes=(*found.notes, *notes))


def _grouped(build):
    """Return whether a torch module has fewer heads of k and v, where it may have two or more."""
    n_heads, d_head = GROUPED
    try:
        made = build(n_heads * d_head, n_heads)
        return any(slot.kv > 1 for slot in guess.guess(made, n_heads * d_head, n_heads))
    except Exception:  # it does not take this size, or the roles cannot be guessed
        return False


def _adopted(program, sample):
    """Return a class of modules with the parts of objects like this one, or None if it has none."""
    method = names.method_name(program)
    held = map(backends.of_module, getattr(sample, "__dict__", {}).values())
    backend = next(filter(None, held), None)
    if not (backend and method):
        return None

    class Around(backend.base):
        """A module around an object."""

        __signature__ = names.signature(program)

        def __init__(self, **given):
            super().__init__()
            one = vars(self)["one"] = program(**given)
            for name, part in vars(one).items():
                if isinstance(part, int) or backends.of_module(part):
                    setattr(self, name, part)

    def asked(self, *args, **given):
        one = vars(self)["one"]
        for name in vars(one):
            if hasattr(self, name):
                setattr(one, name, getattr(self, name))
        return getattr(one, method)(*args, **given)

    asked.__signature__ = names.signature(getattr(program, method))
    Around.__name__ = program.__name__
    setattr(Around, backend.method, asked)
    return Around
