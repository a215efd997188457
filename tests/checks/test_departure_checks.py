"""The arguments of what today's models change: every error by its whole message."""

import math

import numpy as np
import pytest
import torch
from exact import raises

from utils import sizes
from utils.checks import departures

FLOATS = "{} must be an array or a tensor, got {}"
NUMBERS = "{} must hold floating-point numbers, got int64: the results are fractions"
Q, K, V = map(torch.as_tensor, sizes.qkv())
X = torch.randn(2, 3, 5, 4)
WIDTHS = "gain must be ({},) = ({},) for x (2, 3, 5, 4), got {}"


@pytest.mark.parametrize(("call", "arguments", "error", "message"), [
    (departures.cap, ([1.0], 30), TypeError, FLOATS.format("scores", "list")),
    (departures.cap, (torch.ones(2).long(), 30), TypeError, NUMBERS.format("scores")),
    (departures.cap, (X, True), TypeError, "cap must be a number, got True"),
    (departures.cap, (X, "30"), TypeError, "cap must be a number, got '30'"),
    (departures.cap, (X, 0), ValueError, "cap must be greater than 0 and finite, got 0"),
    (departures.sink, (Q, K, V, [0.0], None), TypeError, FLOATS.format("sink", "list")),
    (departures.sink, (Q, K, V, torch.ones(3, dtype=torch.float32), None), TypeError,
     "q is float64, but sink is float32: convert one of them"),
    (departures.sink, (Q, K, V, torch.zeros(4).double(), None), ValueError,
     "sink must be (h,), one score for each head of q (b, h, i, d), got sink (4,) and q "
     "(2, 3, 5, 4)"),
    (departures.sink, (Q[0], K[0], V[0], torch.zeros(3).double(), None), ValueError,
     "sink must be (h,), one score for each head of q (b, h, i, d), got sink (3,) and q (3, 5, 4)"),
    (departures.gate, ([1.0], X), TypeError, FLOATS.format("context", "list")),
    (departures.gate, (X, 1.0), TypeError, FLOATS.format("gate", "float")),
    (departures.gate, (X, X.double()), TypeError,
     "context is float32, but gate is float64: convert one of them"),
    (departures.gate, (X, X.numpy()), TypeError,
     "context is a PyTorch tensor, but gate is a NumPy array: convert one of them"),
    (departures.gate, (X, X[0]), ValueError,
     "context and gate must have one shape, got context (2, 3, 5, 4) and gate (3, 5, 4)"),
    (departures.gain, ([1.0], None, False), TypeError, FLOATS.format("x", "list")),
    (departures.gain, (torch.ones(()), None, False), ValueError,
     "x must have at least 1 axes, got ()"),
    (departures.gain, (X[0, 0], None, True), ValueError,
     "x must have at least 3 axes, got (5, 4)"),
    (departures.gain, (X, [1.0], False), TypeError, FLOATS.format("gain", "list")),
    (departures.gain, (X, np.ones(4, np.float32), False), TypeError,
     "x is a PyTorch tensor, but gain is a NumPy array: convert one of them"),
    (departures.gain, (X, torch.ones(12), False), ValueError, WIDTHS.format("d", 4, (12,))),
    (departures.gain, (X, torch.ones(4), True), ValueError, WIDTHS.format("h * d", 12, (4,))),
])
def test_what_does_not_fit_is_named(call, arguments, error, message):
    with raises(error, message):
        call(*arguments)


@pytest.mark.parametrize("cap", [1, 0.5, np.float32(30), 1e-300])
def test_a_cap_above_zero_passes(cap):
    assert departures.cap(X, cap) is None


@pytest.mark.parametrize("cap", [-1, -0.0, math.inf, math.nan])
def test_other_caps_do_not(cap):
    with raises(ValueError, f"cap must be greater than 0 and finite, got {cap}"):
        departures.cap(X, cap)


def test_a_gain_is_shared_by_as_many_heads_as_are_returned():
    assert departures.gain(X, torch.ones(4), whole=False) == 1
    assert departures.gain(X, torch.ones(12), whole=True) == 3
    assert departures.gain(X, None, whole=True) == 3
    assert departures.gain(X[0, 0, 0], torch.ones(4), whole=False) == 1
    assert departures.gain(X[0], torch.ones(12), whole=True) == 3


def test_a_sink_leaves_the_mask_as_it_is_checked():
    keep = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    sink = torch.zeros(3).double()
    assert departures.sink(Q, K, V, sink, None) is None
    assert torch.equal(departures.sink(Q, K, V, sink, keep), keep)
    with pytest.raises((TypeError, ValueError), match="keep"):
        departures.sink(Q, K, V, sink, keep.double())
