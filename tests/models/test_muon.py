"""Muon in float32 does what PyTorch's does in bfloat16."""

import pytest
import torch

from utils.models import muon

SHAPES = [(5, 12), (12, 5), (7, 7)]


def by_singular_values(matrix):
    """Return what ``orthogonal`` should, from a decomposition in float64."""
    u, s, v = torch.linalg.svd(matrix.double(), full_matrices=False)
    s = s / s.norm()
    a, b, c = muon.COEFFICIENTS
    for _ in range(muon.STEPS):
        s = a * s + b * s**3 + c * s**5
    return u @ torch.diag(s) @ v, s


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_singular_values_come_near_one_and_their_vectors_stay(shape, dtype, tolerance):
    torch.manual_seed(0)
    matrix = torch.randn(shape, dtype=dtype)
    expected, values = by_singular_values(matrix)
    assert (muon.orthogonal(matrix) - expected).abs().max() < tolerance
    assert 0.6 < values.min() <= values.max() < 1.3
    assert (muon.orthogonal(100 * matrix) - expected).abs().max() < tolerance


def steps_of(kind, shape, steps=3):
    """Return a parameter after some steps on random gradients, and the optimiser's state."""
    torch.manual_seed(1)
    p = torch.nn.Parameter(torch.randn(shape))
    without = torch.nn.Parameter(torch.randn(3, 2))
    optimiser = kind([p, without], lr=0.1, weight_decay=0.2, momentum=0.9)
    for _ in range(steps):
        p.grad = torch.randn(shape)
        optimiser.step()
    return p.detach(), optimiser.state_dict()


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_those_of_pytorch(shape):
    (ours, state), (theirs, expected) = (steps_of(kind, shape)
                                         for kind in (muon.Muon, torch.optim.Muon))
    assert (ours - theirs).abs().max() < 0.02  # three steps of 0.1 in bfloat16
    assert torch.equal(state["state"][0]["momentum_buffer"],
                       expected["state"][0]["momentum_buffer"])
    assert state["param_groups"] == expected["param_groups"]


def test_a_matrix_without_a_gradient_stays():
    p = torch.nn.Parameter(torch.ones(2, 3))
    muon.Muon([p], lr=0.1).step()
    assert torch.equal(p, torch.ones(2, 3))


def test_no_gradient_at_all_changes_nothing_and_is_not_nan():
    p = torch.nn.Parameter(torch.ones(2, 3))
    p.grad = torch.zeros(2, 3)
    muon.Muon([p], lr=0.1, weight_decay=0.0).step()
    assert torch.equal(p, torch.ones(2, 3))
