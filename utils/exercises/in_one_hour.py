"""The exercises of the page for one hour."""

import numpy as np

from .. import reference
from ..checks import to_numpy
from ._check import Check, Exercise
from ._judges import doctor_report, recognise


def _from_memory(program):
    return _at_first_sight(program) or doctor_report(_one_head_at_a_time(program),
                                                     framework="numpy")


def _at_first_sight(program):
    """Return what is wrong with the result of one call, "" if the doctor must look."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape) for shape in ((5, 4), (7, 4), (7, 6)))
    keep = np.arange(7) % 3 != np.arange(5)[:, None] % 3
    with np.errstate(all="ignore"):
        given = program(q.copy(), k.copy(), v.copy(), keep.copy())
    if given is None:
        return "The function returns None: is a return missing?"
    if isinstance(given, tuple):
        return f"The function returns {len(given)} things. Return the contexts alone."
    if np.shape(given) == (5, 6) and np.allclose(given, reference.attention(q, k, v, ~keep)[0]):
        return "The mask is inverted: where keep is True, the query may look."
    return ""


def _one_head_at_a_time(program):
    """Return a kernel (b, h, i, d) that calls a program of (i, d) arrays, always with a keep."""
    def kernel(q, k, v, keep=None):
        lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
        keep = np.ones((q.shape[-2], k.shape[-2]), dtype=bool) if keep is None else keep
        q, k, v, keep = (np.broadcast_to(a, (*lead, *np.shape(a)[-2:])) for a in (q, k, v, keep))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            contexts = [to_numpy(program(q[n].copy(), k[n].copy(), v[n].copy(), keep[n].copy()))
                        for n in np.ndindex(lead)]
        return np.reshape(contexts, (*lead, *contexts[0].shape))

    return kernel


def _cases():
    """Return [(logits (token,), n)]: in no order, some negative, without equal numbers."""
    rng = np.random.default_rng(0)
    return [(rng.permutation(np.linspace(-3, 4, size)), n) for size, n in ((7, 3), (9, 1), (5, 5))]


def _softmax(x):
    exps = np.exp(x - x.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def _known_ways(logits, n):
    """Yield (probabilities, message) of every known way to keep the n best, the right one first."""
    order = logits.argsort()
    best, worst = np.isin(np.arange(len(logits)), order[-n:]), np.isin(
        np.arange(len(logits)), order[:n])
    yield _softmax(np.where(best, logits, -np.inf)), ""
    yield _softmax(logits) * best, (
        "The probabilities do not sum to 1, because you set some to 0 after softmax. The causal "
        "mask changes the scores, before softmax.")
    yield _softmax(np.where(best, logits, 0.0)), (
        "A character that is left out still gets a probability: exp(0) is 1. Which score has the "
        "exponential 0?")
    yield _softmax(np.where(worst, logits, -np.inf)), (
        "You kept the n smallest logits. `argsort` sorts from the smallest to the largest.")
    yield _softmax(np.where(logits > logits[order[-n]], logits, -np.inf)), (
        "You kept one too few: the n-th best is missing. Is it > or >=?")
    yield _softmax(logits), "No character is left out: all of them still have a probability."


def _only_the_best(program):
    for logits, n in _cases():
        with np.errstate(invalid="ignore"):
            given = program(logits.copy(), n)
        if given is None:
            return "The function returns None: is a return missing?"
        given = to_numpy(given)
        if given.shape == (n,) and n < len(logits):
            return (f"The function returns {n} numbers for {len(logits)} characters. Return one "
                    "for each character, 0 for those left out; else `write` draws a wrong one.")
        if given.shape != logits.shape:
            return (f"For {len(logits)} logits, the result has the shape {given.shape}. Return one "
                    "probability for each.")
        if np.allclose(given, np.sort(_softmax(np.where(
                logits >= np.sort(logits)[-n], logits, -np.inf)))[::-1]) and n > 1:
            return ("The probabilities are right, but sorted. Each must stand at the place of its "
                    "character.")
        message = recognise(given, _known_ways(logits, n))
        if message is None:
            return (f"For the logits {logits.round(2)} and n={n}, the result is {given.round(3)}. "
                    "Give all but the n largest logits a score that softmax turns into 0.")
        if message and n < len(logits):
            return message
    return ""


check = Check({
    "from_memory": Exercise(
        _from_memory,
        ("There are four steps: scores, scale, mask, and the weighted sum of the values.",
         "The scores are q @ k.T, divided by the root of the number of columns of k.",
         "np.where(keep, scores, -np.inf) masks. Then softmax, and then @ v."),
        "Attention, from memory: on random inputs it returns the same numbers as the reference "
        "implementation of this book."),
    "only_the_best": Exercise(
        _only_the_best,
        ("Which step of attention gives some entries the weight 0?",
         "Replace all but the n largest logits by -np.inf, and then take softmax.",
         "np.sort(logits)[-n] is the smallest logit that stays."),
        "With n=1, the model always takes the likeliest character. This choice is called top-k "
        "sampling."),
})
