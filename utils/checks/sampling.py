"""Checks of the arguments of ``utils.models.sampling``."""

import numbers

from .numbers import count, writing
from .sides import array


def options(logits, temperature, top_k, top_p):
    """Raise unless ``logits`` are floating-point numbers and the rest is in its range."""
    array(logits, "logits")
    writing(0, temperature)
    if top_k is not None:
        count(top_k, "top_k")
    if top_p is not None:
        if isinstance(top_p, bool) or not isinstance(top_p, numbers.Real):
            raise TypeError(f"top_p must be a number, got {top_p!r}")
        if not 0 < top_p <= 1:
            raise ValueError("top_p must be greater than 0 and at most 1, because it is a share of "
                             f"the probability, got {top_p}")


def end(end):
    """Return the tokens ``end``, one or several, as a list of ints."""
    listed = [end] if isinstance(end, int) else list(end)
    return [count(token, "end", 0) for token in listed]
