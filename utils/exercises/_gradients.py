"""Judging three gradients that a reader's backward program returns."""

import numpy as np

from utils.checks import difference, to_numpy
from utils.exercises._answers import listed


def told(got, shapes, known, about):
    """Return what is wrong with three gradients, "" if nothing is.

    ``shapes`` is {name: shape}; ``known`` {name: [(gradient, why it is wrong), …]}, the right one
    first; ``about(name, got, shape)`` what to add where the shape is another.
    """
    if got is None:
        return "It gives nothing back: the function ends without a return."
    if not isinstance(got, tuple | list) or len(got) != 3:
        return f"Three arrays are asked for, {', '.join(shapes)}."
    arrays = {name: to_numpy(part) for name, part in zip(shapes, got, strict=True)}
    lines = [f"{name}: it should be {shapes[name]}, like its own, and is {array.shape}"
             f"{about(name, array.shape, shapes[name])}." for name, array in arrays.items()
             if array.shape != shapes[name]]
    return listed(lines) or listed([line for name, array in arrays.items()
                                    if (line := _one(name, array, known[name]))])


def _one(name, got, known):
    """Return what is wrong with one gradient: that of the candidate it equals, "" if right."""
    if not np.isfinite(got).all():
        return f"{name}: not all of its numbers are finite."
    for candidate, why in known:
        if difference(got, candidate) < 1e-9:
            return why and f"{name}: {why}"
    right = known[0][0]
    factor = float(np.sum(got * right) / np.sum(right * right))
    if abs(factor) > 1e-9 and difference(got, factor * right) < 1e-9:
        return f"{name}: the right direction, but {factor:.3g} times as long as it should be."
    where = np.unravel_index(np.argmax(abs(got - right)), right.shape)
    return (f"{name}: at {tuple(map(int, where))} it is {got[where]:.3g}, and central differences "
            f"would say {right[where]:.3g}.")
