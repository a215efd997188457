"""Counts, other numbers and tokens: every error by its whole message, and what just passes."""

import math

import numpy as np
import pytest
import torch
from exact import raises
from torch import nn

from utils import checks
from utils.checks import cache, numbers


class Other:
    """An array of no framework that the course knows."""

    shape, dtype = (1, 2, 3), np.dtype("float32")


LINEAR = nn.Linear(3, 4)
EMBEDDING = nn.Embedding(5, 2)
BASE = "base must be a number, got {}"
TEMPERATURE = "temperature must be a number, got {}"
TOKENS = "tokens must be {}"
SIDES = ("q, k and v must be (b, h, i, d), (b, h_kv, j, d) and (b, h_kv, j, d_v), got "
         "(2, 6, 5, 4), (2, 3, 7, 4), (2, 2, 7, 8)")


@pytest.mark.parametrize(("call", "arguments", "error", "message"), [
    (numbers.integers, ([1.5], "rows"), TypeError, "rows must be integers, got float64"),
    (numbers.integers, ([True], "rows"), TypeError, "rows must be integers, got bool"),
    (checks.angles, (4.0, 10), TypeError, "d must be an integer, got 4.0"),
    (checks.angles, (3, 10), ValueError,
     "d must be even, because dimensions are rotated in pairs, got d=3"),
    (checks.angles, (4, True), TypeError, BASE.format("True")),
    (checks.angles, (4, "10"), TypeError, BASE.format("'10'")),
    (checks.angles, (4, 0), ValueError, "base must be greater than 0, got 0"),
    (checks.angles, (4, math.inf), ValueError, "base must be greater than 0, got inf"),
    (checks.writing, (-1, 1), ValueError, "length must be at least 0, got -1"),
    (checks.writing, (2, False), TypeError, TEMPERATURE.format("False")),
    (checks.writing, (2, None), TypeError, TEMPERATURE.format("None")),
    (checks.writing, (2, -0.5), ValueError, "temperature must be at least 0, got -0.5"),
    (checks.writing, (2, math.inf), ValueError, "temperature must be at least 0, got inf"),
    (checks.scores, ([1.0],), TypeError, "scores must be an array or a tensor, got list"),
    (checks.scores, (np.array([1], np.int32),), TypeError,
     "scores must hold floating-point numbers, got int32: the results are fractions"),
    (checks.tokens, ([[1]], EMBEDDING), TypeError, TOKENS.format("a PyTorch tensor, got list")),
    (checks.tokens, (np.array([[1]]), EMBEDDING), TypeError,
     TOKENS.format("a PyTorch tensor, got a NumPy array")),
    (checks.tokens, (torch.zeros(1, 1), EMBEDDING), TypeError,
     TOKENS.format("int64 or int32, got float32")),
    (checks.tokens, (torch.tensor([1]), EMBEDDING), ValueError,
     TOKENS.format("(batch, length) with at least one token, got (1,)")),
    (checks.tokens, (torch.tensor([[0, 5]]), EMBEDDING), ValueError,
     TOKENS.format("in 0 .. 4, the vocabulary, got 0 .. 5")),
    (checks.tokens, (torch.tensor([[-1, 3]]), EMBEDDING), ValueError,
     TOKENS.format("in 0 .. 4, the vocabulary, got -1 .. 3")),
    (checks.inputs, (LINEAR, np.zeros((1, 2, 3), np.float32)), TypeError,
     "x must be a PyTorch tensor, got a NumPy array"),
    (checks.inputs, (LINEAR, torch.zeros(1, 2, 3), Other()), TypeError,
     "memory must be a PyTorch tensor, got Other"),
    (checks.inputs, (LINEAR, torch.zeros(1, 2, 3).double()), TypeError,
     "x is float64, but the layer's weights are float32: convert one of them"),
    (checks.inputs, (LINEAR, torch.zeros(2, 3)), ValueError,
     "x must have three axes (batch, length, 3), got (2, 3)"),
    (checks.inputs, (LINEAR, torch.zeros(1, 2, 3), torch.zeros(1, 2, 4)), ValueError,
     "memory must have three axes (batch, length, 3), got (1, 2, 4)"),
    (checks.lengths, ([1], 2.5), TypeError, "n_k must be an integer, got 2.5"),
    (checks.check_close, ([1j], [1.0]), TypeError,
     "got must be an array of real numbers, got complex128"),
    (cache.group, (0, 1), ValueError, "n_heads must be at least 1, got 0"),
    (cache.group, (6, 4), ValueError,
     "n_kv_heads must divide n_heads=6, got n_kv_heads=4; possible: 1, 2, 3, 6"),
    (cache.shared, [torch.zeros(2, 6, 5, 4), torch.zeros(2, 3, 7, 4), torch.zeros(2, 2, 7, 8)],
     ValueError, SIDES)])
def test_each_error_has_its_message(call, arguments, error, message):
    with raises(error, message):
        call(*arguments)


def test_what_is_allowed_passes():
    found = numbers.integers(np.array([3], np.uint8), "rows")
    assert found.tolist() == [3]
    assert found.dtype == np.int64
    assert checks.angles(2, 0.5) is checks.angles(4, 1) is None
    assert checks.writing(0, 0) is checks.writing(2, 0.5) is None
    assert checks.scores(np.array([1])) is checks.scores(torch.ones(1)) is None
    for tokens in (torch.tensor([[0, 4]]), torch.tensor([[4]], dtype=torch.int32),
                   torch.zeros(0, 3, dtype=torch.int64)):
        assert checks.tokens(tokens, EMBEDDING) is tokens
    one = nn.Embedding(1, 2)
    empty = torch.zeros(0, 3, dtype=torch.int64)
    assert checks.tokens(empty, one) is empty
    elsewhere = torch.tensor([[9]], device="meta")  # its numbers are not looked at
    assert checks.tokens(elsewhere, EMBEDDING) is elsewhere
