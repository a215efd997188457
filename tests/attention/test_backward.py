"""The gradient by hand against autograd, central differences and the reference, in every part."""

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st

from utils import checks, masks, reference, sizes
from utils.attention import backward

KEEP = masks.padding([7, 3], 7) & masks.causal(5, 7, "bottom_right")  # (b, 1, i, j)
EMPTY = KEEP & (np.arange(5) != 2)[:, None]                           # query 2 sees nothing
PER_HEAD = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.8
MASKS = pytest.mark.parametrize("keep", [None, KEEP, EMPTY, PER_HEAD],
                                ids=["all", "keep", "empty", "per head"])
HEADS = sizes.HEADS


def random(*shape, seed=9):
    return np.random.default_rng(seed).standard_normal(shape)


def close(got, expected):
    assert got.shape == expected.shape
    assert checks.difference(got, expected) <= checks.TOLERANCES[got.dtype.name]


def by_autograd(program, inputs, g):
    """Return the gradients of sum(program(*inputs) * g), as PyTorch finds them."""
    leaves = [torch.tensor(x, requires_grad=True) for x in inputs]
    return [grad.numpy() for grad in torch.autograd.grad(program(*leaves), leaves,
                                                         torch.as_tensor(g))]


def torch_layer(x, memory, W, keep=None):
    """Return multi-head attention written for autograd, without a line of that module."""
    q, k, v = ((side @ W[f"W_{name}"] + W[f"b_{name}"]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
               for name, side in (("q", x), ("k", memory), ("v", memory)))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if keep is not None:
        keep = torch.as_tensor(keep)
        scores = scores.masked_fill(~keep, -1e300)
    weights = scores.softmax(dim=-1)
    weights = weights if keep is None else weights * keep.any(dim=-1, keepdim=True)
    return (weights @ v).transpose(1, 2).flatten(-2) @ W["W_o"] + W["b_o"]


# --- softmax

def test_softmax_backward_of_two_keys_in_closed_form():
    weights, g = np.array([[0.25, 0.75]]), np.array([[4.0, 8.0]])  # the average of g is 7
    assert backward.softmax_backward(weights, g).tolist() == [[-0.75, 0.75]]


@MASKS
def test_softmax_backward_is_what_autograd_finds(keep):
    scores, g = random(2, 3, 5, 7), random(2, 3, 5, 7, seed=1)
    weights = reference.softmax(scores if keep is None else np.where(keep, scores, -np.inf))
    full = torch.as_tensor(np.broadcast_to(True if keep is None else keep, scores.shape).copy())

    def softmax(scores):
        weights = scores.masked_fill(~full, -1e300).softmax(dim=-1)
        return weights * full.any(dim=-1, keepdim=True)
    got = backward.softmax_backward(weights, g)
    close(got, by_autograd(softmax, [scores], g)[0])
    assert not got[~full.numpy()].any()  # exactly 0, empty rows included


def test_a_constant_upstream_gradient_gives_the_scores_nothing():
    weights = reference.softmax(random(2, 3, 5, 7))
    got = backward.softmax_backward(weights, np.full_like(weights, 3.0))
    assert checks.difference(got, np.zeros_like(weights)) < 1e-14


@given(st.integers(0, 99))
def test_what_the_scores_of_a_row_receive_sums_to_zero(seed):
    weights = reference.softmax(random(4, 6, seed=seed))
    close(backward.softmax_backward(weights, random(4, 6, seed=seed + 1)).sum(axis=-1), np.zeros(4))


# --- one attention

@MASKS
def test_attention_backward_is_the_reference_gradient(keep):
    q, k, v = sizes.qkv()
    g = random(2, 3, 5, 8)
    _, weights = reference.attention(q, k, v, keep)
    got = backward.attention_backward(q, k, v, weights, g)
    for mine, theirs in zip(got, reference.attention_gradient(q, k, v, g, keep), strict=True):
        close(mine, theirs)


def test_attention_backward_is_what_autograd_finds_in_pytorch_s_own_program():
    q, k, v = sizes.qkv()
    g, keep = random(2, 3, 5, 8), torch.as_tensor(KEEP)
    _, weights = reference.attention(q, k, v, KEEP)
    expected = by_autograd(lambda *qkv: torch.nn.functional.scaled_dot_product_attention(
        *qkv, attn_mask=keep), (q, k, v), g)
    for mine, theirs in zip(backward.attention_backward(q, k, v, weights, g), expected,
                            strict=True):
        close(mine, theirs)


def test_attention_backward_needs_no_head_axis():
    q, k, v = sizes.qkv()
    g, weights = random(2, 3, 5, 8), reference.attention(q, k, v)[1]
    whole = backward.attention_backward(q, k, v, weights, g)
    one = backward.attention_backward(q[1, 2], k[1, 2], v[1, 2], weights[1, 2], g[1, 2])
    for part, full in zip(one, whole, strict=True):
        close(part, full[1, 2])


def test_a_query_that_attends_to_nothing_has_a_gradient_of_zeros():
    q, k, v = sizes.qkv()
    g, weights = random(2, 3, 5, 8), reference.attention(q, k, v, EMPTY)[1]
    g_q, g_k, g_v = backward.attention_backward(q, k, v, weights, g)
    assert not g_q[:, :, 2].any()
    assert not g_k[1, :, 3:].any()       # padding
    assert not g_v[1, :, 3:].any()
    assert g_q[:, :, [1, 3, 4]].any(axis=-1).all()


# --- the parts of the layer

def test_linear_backward_is_what_autograd_finds():
    x, W, b, g = random(2, 5, 11), random(11, 12), random(12), random(2, 5, 12, seed=1)
    expected = by_autograd(lambda x, W, b: x @ W + b, (x, W, b), g)
    for mine, theirs in zip(backward.linear_backward(x, W, g), expected, strict=True):
        close(mine, theirs)


def test_split_and_merge_are_those_of_the_reference():
    x, heads = random(2, 5, 12), random(2, 3, 5, 4)
    np.testing.assert_array_equal(backward.split(x, 3), reference.split_heads(x, 3))
    np.testing.assert_array_equal(backward.merge(heads), reference.merge_heads(heads))


def test_the_backward_of_split_is_merge_and_of_merge_split():
    x, g = random(2, 5, 12), random(2, 3, 5, 4)
    expected, = by_autograd(lambda x: x.unflatten(-1, (3, 4)).transpose(1, 2), [x], g)
    np.testing.assert_array_equal(backward.merge(g), expected)
    expected, = by_autograd(lambda x: x.transpose(1, 2).flatten(-2), [g], x)
    np.testing.assert_array_equal(backward.split(x, 3), expected)


# --- the whole layer

@MASKS
def test_the_layer_returns_what_the_reference_returns_and_keeps_the_weights(keep):
    x, memory = sizes.sides()
    W = sizes.weights()
    out, kept = backward.multi_head_attention(x, memory, W, HEADS, keep)
    expected, weights = reference.multi_head_attention(x, memory, W, HEADS, keep)
    close(out, expected)
    close(kept[6], weights)


@MASKS
def test_all_ten_gradients_are_those_of_autograd_and_of_the_reference(keep):
    x, memory = sizes.sides()
    W, g = sizes.weights(), random(2, 5, 13)
    _, kept = backward.multi_head_attention(x, memory, W, HEADS, keep)
    got = backward.multi_head_attention_backward(kept, g)
    autograd = by_autograd(lambda x, memory, *rest: torch_layer(
        x, memory, dict(zip(W, rest, strict=True)), keep), (x, memory, *W.values()), g)
    expected = reference.multi_head_attention_gradient(x, memory, W, HEADS, g, keep)
    assert set(got) == set(expected) == {"x", "memory", *W}
    for name, theirs in zip(("x", "memory", *W), autograd, strict=True):
        close(got[name], theirs)
        close(got[name], expected[name])


def test_self_attention_adds_the_two_gradients_of_x():
    x = sizes.sides()[1]
    W, g = sizes.weights(), random(2, 7, 13)
    keep = masks.decoder([7, 4], 7)
    _, kept = backward.multi_head_attention(x, x, W, HEADS, keep)
    got = backward.multi_head_attention_backward(kept, g)
    weights = {name: torch.as_tensor(w) for name, w in W.items()}
    expected, = by_autograd(lambda x: torch_layer(x, x, weights, keep), [x], g)
    close(got["x"] + got["memory"], expected)


def test_the_gradient_is_the_slope_of_the_loss():
    x, memory = sizes.sides()
    W, g = sizes.weights(), random(2, 5, 13)
    _, kept = backward.multi_head_attention(x, memory, W, HEADS, EMPTY)
    grads = backward.multi_head_attention_backward(kept, g)
    inputs = {"x": x, "memory": memory, **W}
    for seed, name in enumerate(inputs):
        step = random(*inputs[name].shape, seed=seed)
        above, below = (np.sum(g * backward.multi_head_attention(
            moved["x"], moved["memory"], moved, HEADS, EMPTY)[0]) for moved in (
            inputs | {name: inputs[name] + h * step} for h in (1e-5, -1e-5)))
        assert (above - below) / 2e-5 == pytest.approx(np.sum(grads[name] * step), rel=1e-6,
                                                       abs=1e-7)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_dtypes_go_through(dtype):
    x, memory = (side.astype(dtype) for side in sizes.sides())
    W = {name: w.astype(dtype) for name, w in sizes.weights().items()}
    out, kept = backward.multi_head_attention(x, memory, W, HEADS, KEEP)
    grads = backward.multi_head_attention_backward(kept, np.ones_like(out))
    expected = reference.multi_head_attention_gradient(x, memory, W, HEADS, np.ones_like(out), KEEP)
    assert out.dtype == dtype
    for name, grad in grads.items():
        assert grad.dtype == dtype
        close(grad, expected[name].astype(dtype))


# --- errors

def test_an_upstream_gradient_of_another_shape_is_refused():
    q, k, v = sizes.qkv()
    weights = reference.attention(q, k, v)[1]
    with raises(ValueError, "the upstream gradient must have the shape of the output, (2, 3, "
                            "5, 8), got (2, 3, 5, 1)"):
        backward.attention_backward(q, k, v, weights, np.ones((2, 3, 5, 1)))
    with raises(ValueError, "the upstream gradient must have the shape of the output, (2, 3, "
                            "5, 7), got (); for the loss out.sum(), pass ones"):
        backward.softmax_backward(weights, 1.0)
    with raises(ValueError, "the upstream gradient must have the shape of the output, (2, 5, "
                            "12), got (5, 12)"):
        backward.linear_backward(np.ones((2, 5, 11)), np.ones((11, 12)), np.ones((5, 12)))
    _, kept = backward.multi_head_attention(*sizes.sides(), sizes.weights(), HEADS)
    with raises(ValueError, "the upstream gradient must have the shape of the output, (2, 5, "
                            "13), got (2, 5, 12)"):
        backward.multi_head_attention_backward(kept, np.ones((2, 5, 12)))
    backward.check_grad_out(np.ones((2, 3)), (2, 3))
    backward.check_grad_out(torch.ones(2, 3), torch.Size([2, 3]))


def test_heads_that_do_not_divide_and_masks_that_are_not_bool_are_refused():
    x, memory = sizes.sides()
    with raises(ValueError, "d_model=12 is not divisible by n_heads=5 (remainder 2); nearest "
                            "divisors: 2, 3, 4, 6"):
        backward.multi_head_attention(x, memory, sizes.weights(), 5)
    with raises(TypeError, "keep must be bool (True = may attend), got a float64 mask of 0 and "
                           "1; most programs would *add* it to the scores, which masks nothing"):
        backward.multi_head_attention(x, memory, sizes.weights(), 3, KEEP.astype(float))
