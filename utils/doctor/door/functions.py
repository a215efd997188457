"""A function as people write it: a kernel of q, k and v, or a layer of x and its weights."""

from ... import frameworks
from .. import _subject
from . import weights
from .kernels import kernel
from .names import UnknownArgumentError


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
    raise first if isinstance(first, UnknownArgumentError) or "W_q" in str(problem) else problem
