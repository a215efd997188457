"""Checks of the arguments of ``utils.attention.departures``."""

import math
import numbers

from .arguments import keep as fitting
from .sides import array, same_kind


def cap(scores, cap):
    """Raise unless scores are an array of floating-point numbers and ``cap`` a number above 0."""
    array(scores, "scores")
    if isinstance(cap, bool) or not isinstance(cap, numbers.Real):
        raise TypeError(f"cap must be a number, got {cap!r}")
    if not 0 < cap < math.inf:
        raise ValueError(f"cap must be greater than 0 and finite, got {cap}")


def sink(q, k, v, sink, keep):
    """Return ``keep`` as ``checks.keep`` does. Raises as it does, and unless ``sink`` is (h,)."""
    keep = fitting(keep, q, k, v)
    array(sink, "sink")
    same_kind(q=q, sink=sink)
    if len(q.shape) != 4 or tuple(sink.shape) != tuple(q.shape[1:2]):
        raise ValueError(f"sink must be (h,), one score for each head of q (b, h, i, d), got sink "
                         f"{tuple(sink.shape)} and q {tuple(q.shape)}")
    return keep


def gate(context, gate):
    """Raise unless context and gate are arrays of one kind and one shape."""
    array(context, "context")
    array(gate, "gate")
    same_kind(context=context, gate=gate)
    if tuple(context.shape) != tuple(gate.shape):
        raise ValueError("context and gate must have one shape, got context "
                         f"{tuple(context.shape)} and gate {tuple(gate.shape)}")


def gain(x, gain, whole):
    """Return the number of heads that share a norm. Raises unless ``gain`` fits x, or is None."""
    array(x, "x", 3 if whole else 1)
    heads = x.shape[-3] if whole else 1
    if gain is not None:
        array(gain, "gain")
        same_kind(x=x, gain=gain)
        if tuple(gain.shape) != (heads * x.shape[-1],):
            width = "h * d" if whole else "d"
            raise ValueError(f"gain must be ({width},) = ({heads * x.shape[-1]},) for x "
                             f"{tuple(x.shape)}, got {tuple(gain.shape)}")
    return heads
