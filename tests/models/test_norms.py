"""LayerNorm and RMSNorm against closed forms and PyTorch, on arrays and tensors."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from utils import checks, sizes
from utils.models import norms

X, _ = sizes.sides()  # (b, i, d_in)
GAIN, BIAS = np.random.default_rng(1).standard_normal((2, 11))
each_kind = pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])


def close(got, expected):
    assert tuple(got.shape) == tuple(expected.shape)
    assert checks.difference(got, expected) <= checks.TOLERANCES[checks.dtype_name(got)]


@each_kind
def test_layer_norm_of_a_small_row(make):
    x = make(np.array([[1.0, 3.0, 8.0]]))  # mean 4, variance (9 + 1 + 16) / 3
    close(norms.layer_norm(x, eps=0.0), np.array([[-3.0, -1.0, 4.0]]) / np.sqrt(26 / 3))
    close(norms.layer_norm(x, eps=1 / 3), np.array([[-1.0, -1 / 3, 4 / 3]]))


@each_kind
def test_rms_norm_of_a_small_row(make):
    x = make(np.array([[1.0, 5.0, 7.0]]))  # mean of squares 25
    close(norms.rms_norm(x, eps=0.0), np.array([[0.2, 1.0, 1.4]]))
    close(norms.rms_norm(x, eps=75.0), np.array([[0.1, 0.5, 0.7]]))


@each_kind
def test_layer_norm_equals_pytorch(make):
    x, gain, bias = map(torch.as_tensor, (X, GAIN, BIAS))
    close(norms.layer_norm(*map(make, (X, GAIN, BIAS))), F.layer_norm(x, (11,), gain, bias))
    close(norms.layer_norm(make(X)), F.layer_norm(x, (11,)))
    close(norms.layer_norm(make(X), eps=0.1), F.layer_norm(x, (11,), eps=0.1))


@each_kind
def test_rms_norm_equals_pytorch(make):
    x, gain = map(torch.as_tensor, (X, GAIN))
    close(norms.rms_norm(*map(make, (X, GAIN))), F.rms_norm(x, (11,), gain, eps=1e-5))
    close(norms.rms_norm(make(X)), F.rms_norm(x, (11,), eps=1e-5))
    close(norms.rms_norm(make(X), eps=0.1), F.rms_norm(x, (11,), eps=0.1))


@each_kind
def test_several_axes_are_normalised_together(make):
    flat = make(X.reshape(2, 55))
    for norm in (norms.layer_norm, norms.rms_norm):
        close(norm(make(X), axis=(1, 2)), norm(flat).reshape(2, 5, 11))
        close(norm(make(X), axis=1), np.swapaxes(norm(np.swapaxes(X, 1, 2)), 1, 2))


@each_kind
def test_a_word_is_normalised_without_a_look_at_the_others(make):
    changed = X.copy()
    changed[:, 1:] = 1e3
    for norm in (norms.layer_norm, norms.rms_norm):
        close(norm(make(changed))[:, 0], norm(X)[:, 0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_dtype_stays(dtype):
    for norm in (norms.layer_norm, norms.rms_norm):
        assert norm(X.astype(dtype)).dtype == dtype
        close(norm(X.astype(dtype)), norm(X.astype(dtype).astype(np.float64)))


def test_gradients():
    inputs = [torch.as_tensor(x).requires_grad_() for x in (X[:1, :2], GAIN, BIAS)]
    assert torch.autograd.gradcheck(norms.layer_norm, inputs)
    assert torch.autograd.gradcheck(norms.rms_norm, inputs[:2])
