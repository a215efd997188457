"""The probes find what they are for, and say where."""

import numpy as np
import pytest
import torch
from exact import raises

from utils import masks, sizes
from utils.doctor.probes.leaks import leaks
from utils.models import norms

N = sizes.N_K
X = torch.as_tensor(sizes.sides()[1])                            # (b, 7, 11)
AHEAD = [[i, j] for i in range(N) for j in range(i + 1, N)]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def attend(keep):
    """Return a program that averages the tokens that ``keep`` (i, j) allows."""
    keep = torch.as_tensor(keep).double()
    return lambda x: keep @ x


def test_a_causal_program_leaks_nothing():
    assert leaks(attend(masks.causal(N)), X) == []


@pytest.mark.parametrize("pair", [[0, 1], [2, 3], [1, 6], [0, 6]], ids=str)
def test_a_single_leak_is_named(pair):
    keep = masks.causal(N)
    keep[tuple(pair)] = True
    assert leaks(attend(keep), X) == [pair]


def test_a_leak_in_one_example_or_one_feature_is_enough():
    def program(x):
        out = torch.zeros_like(x)
        out[1, 2, 3] = x[1, 5, 8]
        return out
    assert leaks(program, X) == [[2, 5]]


def test_a_leak_far_below_the_other_numbers_is_found():
    keep = masks.causal(N) + 1e-12 * ~masks.causal(N)
    assert leaks(attend(keep), X) == AHEAD


def test_the_rule_is_the_callers():
    packed = np.equal.outer([0, 0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 2, 2]) & masks.causal(N)
    prefix = masks.causal(N) | (np.arange(N) < 3)
    assert leaks(attend(packed), X, packed) == leaks(attend(prefix), X, prefix) == []
    assert leaks(attend(prefix), X) == [[0, 1], [0, 2], [1, 2]]
    assert leaks(attend(masks.causal(N)), X, packed) == np.argwhere(
        masks.causal(N) & ~packed).tolist()
    assert leaks(attend(prefix), X, torch.as_tensor(prefix)) == []


def test_a_position_may_depend_on_itself_whatever_the_mask():
    assert leaks(lambda x: 2 * x, X, np.zeros((N, N), bool)) == []


def test_normalising_over_time_leaks_and_over_features_does_not():
    assert leaks(lambda x: norms.layer_norm(x, axis=1), X) == AHEAD
    assert leaks(lambda x: norms.layer_norm(x, axis=-1), X) == []


def test_a_leak_with_a_derivative_of_zero_is_found():
    assert leaks(lambda x: x + x.argmax(dim=1, keepdim=True), X) != []


def test_nan_counts_as_a_dependence():
    assert leaks(lambda x: x + torch.nan, X) == AHEAD


def test_the_program_runs_without_gradients():
    layer = torch.nn.Linear(11, 12, dtype=torch.float64)
    seen = []
    leaks(lambda x: seen.append(layer(x).requires_grad) or x, X)
    assert seen == [False] * (N + 1)


def test_a_rule_that_is_not_bool_is_refused():
    with raises(TypeError, "keep must be bool (True = may attend), got a float64 mask of 0 and 1; "
                           "most programs would *add* it to the scores, which masks nothing"):
        leaks(attend(masks.causal(N)), X, np.tri(N))
