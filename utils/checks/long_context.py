"""Checks of the arguments of ``utils.attention.long_context``."""

import math
import numbers

from .numbers import angles, count
from .sides import array


def rotated(d, base, share=1.0):
    """Return the number of dimensions that RoPE rotates of d, the fraction ``share``, as an int.

    Raises TypeError or ValueError unless d can be rotated in pairs with this base, and the share is
    above 0, at most 1, and gives an even number of dimensions.
    """
    angles(d, base)
    number(share, "share", least=0, strict=True)
    if share > 1:
        raise ValueError(f"share must be at most 1, because it is a fraction of the d dimensions, "
                         f"got {share}")
    dimensions = int(d * share)
    if dimensions < 2 or dimensions % 2:
        raise ValueError(f"share={share} of d={d} is {dimensions} dimensions, but dimensions are "
                         "rotated in pairs: it must be 2 or a greater even number")
    return dimensions


def scale(factor, freqs=None):
    """Raise unless ``factor`` is a number of at least 1, and ``freqs``, if given, are (n,)."""
    number(factor, "factor", least=1)
    if freqs is not None:
        frequencies(freqs)


def scaled(freqs, attention_factor):
    """Raise unless ``freqs`` are (n,) and ``attention_factor`` is a number above 0."""
    frequencies(freqs)
    number(attention_factor, "attention_factor", least=0, strict=True)


def frequencies(freqs):
    """Raise unless ``freqs`` are an array of floating-point numbers with one axis."""
    array(freqs, "freqs")
    if len(freqs.shape) != 1:
        raise ValueError(f"freqs must be one axis, a frequency for each pair of dimensions, got "
                         f"{tuple(freqs.shape)}")


def raised(base, factor, d):
    """Raise unless the base of d dimensions can be raised for a text ``factor`` times as long."""
    angles(d, base)
    number(factor, "factor", least=1)
    if d < 4:
        raise ValueError(f"d must be at least 4, got d={d}: a single pair has the frequency 1 with "
                         "every base")


def grown(factor, n, original):
    """Raise unless ``factor`` is at least 1 and ``n`` and ``original`` count tokens."""
    number(factor, "factor", least=1)
    count(n, "n")
    count(original, "original")


def yarn(d, base, factor, original, beta_fast, beta_slow):
    """Raise unless YaRN's ramp runs from a pair of dimensions to one that rotates more slowly."""
    raised(base, factor, d)
    count(original, "original")
    if base <= 1:
        raise ValueError(f"base must be greater than 1, got {base}")
    bounds("beta_slow", beta_slow, "beta_fast", beta_fast)
    fewest, most = (original / (2 * math.pi * base ** power) for power in ((d - 2) / d, 0))
    if most <= beta_slow or fewest >= beta_fast:
        raise ValueError(
            f"in original={original} tokens, the pairs of dimensions rotate {fewest:.3g} to "
            f"{most:.3g} times, so there is no pair between beta_slow={beta_slow} and "
            f"beta_fast={beta_fast} rotations: is it another original, base or d?")


def llama3(freqs, factor, low, high, original):
    """Raise unless Llama 3.1's ramp runs from ``low`` to ``high`` rotations, the greater one."""
    scale(factor, freqs)
    count(original, "original")
    bounds("low", low, "high", high)


def bounds(name, low, other, high):
    """Raise unless 0 < low < high, both finite numbers."""
    number(low, name, least=0, strict=True)
    number(high, other, least=0, strict=True)
    if low >= high:
        raise ValueError(f"{name} must be less than {other}, got {name}={low} and {other}={high}")


def number(value, name, least, strict=False):
    """Raise unless ``value`` is a finite number of at least ``least``; above it if ``strict``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not least <= value < math.inf or (strict and value == least):
        raise ValueError(f"{name} must be {'greater than' if strict else 'at least'} {least} and "
                         f"finite, got {value}")
