"""Checks of single numbers: counts and probabilities."""

import math
import numbers
import operator

import numpy as np

from .compare import to_numpy


def count(value, name, least=1):
    """Return ``value`` as an int.

    Raises TypeError unless it is an integer, also of NumPy or a tensor, and ValueError if it is
    less than ``least``. ``name`` is the name of the argument in the message.
    """
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got {value}")
    try:
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if found < least:
        raise ValueError(f"{name} must be at least {least}, got {found}")
    return found


def counts(least=1, **named):
    """Return the named arguments as ints, in their order. Raises as ``count`` does."""
    return [count(value, name, least) for name, value in named.items()]


def integers(array, name):
    """Return an array of integers, of any framework or nested lists, as NumPy; int64 if narrower.

    Raises TypeError for anything else.
    """
    found = to_numpy(array)
    if found.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {found.dtype}")
    return found.astype(np.int64)


def probability(value, name):
    """Return ``value``, 0 or more and less than 1. Raises TypeError or ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be 0 or more and less than 1, because it is a probability, "
                         f"got {value}")
    return value


def angles(d, base):
    """Raise unless RoPE can rotate d dimensions in pairs, with this base of the angles."""
    count(d, "d")
    if d % 2:
        raise ValueError(f"d must be even, because dimensions are rotated in pairs, got d={d}")
    if isinstance(base, bool) or not isinstance(base, numbers.Real):
        raise TypeError(f"base must be a number, got {base!r}")
    if not 0 < base < math.inf:
        raise ValueError(f"base must be greater than 0, got {base}")


def writing(length, temperature):
    """Raise unless ``length`` tokens, 0 or more, can be drawn at this temperature, 0 or more."""
    count(length, "length", 0)
    if isinstance(temperature, bool) or not isinstance(temperature, numbers.Real):
        raise TypeError(f"temperature must be a number, got {temperature!r}")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be at least 0, got {temperature}")


def layer(d_model, n_heads, dropout=0.0, d_in=None, d_out=None):
    """Raise unless a layer can have these sizes: n_heads divides d_model, and all are counts."""
    counts(d_model=d_model, n_heads=n_heads)
    counts(**{name: n for name, n in (("d_in", d_in), ("d_out", d_out)) if n is not None})
    probability(dropout, "dropout")
    if d_model % n_heads:
        divisors = [n for n in range(1, d_model + 1) if d_model % n == 0]
        nearest = sorted(sorted(divisors, key=lambda n: abs(n - n_heads))[:4])
        raise ValueError(f"d_model={d_model} is not divisible by n_heads={n_heads} (remainder "
                         f"{d_model % n_heads}); nearest divisors: {', '.join(map(str, nearest))}")
