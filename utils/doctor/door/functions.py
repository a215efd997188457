"""A function as people write it: a kernel of q, k and v, or a layer of x and its weights."""

from ... import frameworks
from .. import _subject, backends
from . import entry, names, weights
from .call import Target, carried_out
from .entry import Entry
from .plan import KERNEL
from .trial import tried


def function(program):
    """Return the Entry of a function. Raises RefusalError if it is neither."""
    try:
        return kernel(program)
    except _subject.RefusalError as refusal:
        first = refusal
    problem = None
    for framework in frameworks.guesses(program):
        try:
            return weights.of_weights(program, framework)
        except _subject.RefusalError as refusal:
            problem = problem or refusal
    raise first if isinstance(first, names.UnknownArgumentError) or "W_q" in str(problem) else (
        problem)


def kernel(program, guesses=None):
    """Return the Entry of a function of q, k and v.

    ``guesses``: the frameworks to try. Raises RefusalError if it can be called in none of the ways
    that the doctor knows.
    """
    with _subject.refusing():
        roles = names.roles_of(program)
    if not set("qkv") <= set(roles.values()):
        raise _subject.RefusalError("does not have the arguments q, k and v")
    problem = None
    for framework in guesses or frameworks.guesses(program):
        for dtype in ("float64", "float32"):
            try:
                target = Target(program, backends.BY_NAME[framework].zero(dtype))
                return _entry(program, tried(target, program, KERNEL, program=program), framework)
            except _subject.RefusalError as refusal:
                problem = problem or refusal
    raise problem


def _entry(program, trial, framework):
    """Return the Entry of what a Trial has found out."""
    def made(plan):
        def adapted(q, k, v, keep=None):
            return carried_out(trial.target._replace(like=q), plan, (q, k, v), keep)

        adapted.__name__, adapted.program = getattr(program, "__name__", "program"), program
        said = plan.said()
        return Entry(adapted, "kernel", {"framework": framework}, said[0].upper() + said[1:])
    return entry.entries(trial, made)
