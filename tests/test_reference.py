"""The oracle: closed forms, plain loops, and gradients against central differences and autograd."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from utils import masks, reference, sizes

KEEP = masks.padding([7, 3], 7) & masks.causal(5, 7, "bottom_right")  # (b, 1, i, j)
EMPTY = KEEP & (np.arange(5) != 2)[:, None]                           # query 2 sees nothing


def close(got, expected, tolerance=1e-12):
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


# --- softmax

def test_softmax_of_log_one_two_five_is_their_share():
    close(reference.softmax(np.log([[1.0, 2.0, 5.0]])), [[0.125, 0.25, 0.625]])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_sums_to_one_along_its_axis_only(axis):
    x = sizes.qkv()[0][0]  # (h, i, d)
    close(reference.softmax(x, axis=axis).sum(axis=axis), 1.0)
    ratio = np.exp(np.take(x, 1, axis) - np.take(x, 0, axis))
    weights = reference.softmax(x, axis=axis)
    close(np.take(weights, 1, axis) / np.take(weights, 0, axis), ratio)


@pytest.mark.parametrize("shift", [-1e5, 1e5])
def test_softmax_does_not_overflow(shift):
    scores = np.array([0.0, 1.0, 2.0])
    close(reference.softmax(scores + shift), reference.softmax(scores))


def test_softmax_of_only_minus_infinity_is_zeros():
    scores = np.array([[-np.inf, -np.inf], [-np.inf, 3.0]])
    np.testing.assert_array_equal(reference.softmax(scores), [[0, 0], [0, 1]])


def test_softmax_computes_in_float64_whatever_comes_in():
    scores = np.array([0.0, 1.0], dtype=np.float16)
    close(reference.softmax(scores), [1 / (1 + math.e), math.e / (1 + math.e)])


# --- attention

def test_equal_keys_give_the_mean_of_the_values():
    q, k, v = sizes.qkv()
    k[:] = k[:, :, :1]
    context, weights = reference.attention(q, k, v)
    close(weights, np.full_like(weights, 1 / 7))
    close(context, np.broadcast_to(v.mean(axis=2, keepdims=True), context.shape))


def test_two_keys_closed_form():
    q, k, v = np.array([[2.0, 0, 0, 0]]), np.eye(4)[:2], np.array([[1.0, 10], [2, 20]])
    share = 1 / (1 + math.exp(-1))  # scores 2 / sqrt(4) = 1 and 0
    context, weights = reference.attention(q, k, v)
    close(weights, [[share, 1 - share]])
    close(context, [[2 - share, 20 - 10 * share]])


@pytest.mark.parametrize("keep", [None, KEEP, EMPTY])
def test_attention_equals_plain_loops(keep):
    q, k, v = sizes.qkv()
    context, _ = reference.attention(q, k, v, keep)
    full = None if keep is None else np.broadcast_to(keep, (2, 3, 5, 7))
    for b, h in np.ndindex(2, 3):
        rows = None if keep is None else full[b, h]
        close(context[b, h], reference.attention_loops(q[b, h], k[b, h], v[b, h], rows))


def test_loops_agree_with_pytorch():
    q, k, v = (x[1, 2] for x in sizes.qkv())
    keep = KEEP[1, 0]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(torch.as_tensor(x)[None] for x in (q, k, v)), attn_mask=torch.as_tensor(keep))
    close(reference.attention_loops(q, k, v, keep), expected[0].numpy())


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("softcap", [None, 0.7])
@pytest.mark.parametrize("bias", [None, "head"])
@pytest.mark.parametrize("keep", [None, KEEP])
def test_scores_are_scaled_capped_biased_and_masked_in_that_order(scale, softcap, bias, keep):
    q, k, _ = sizes.qkv()
    bias = bias and np.random.default_rng(1).standard_normal((3, 1, 7))
    scores = reference.attention_scores(q, k, keep, bias, scale, softcap)
    full = np.broadcast_to(True if keep is None else keep, scores.shape)
    for b, h, i, j in np.ndindex(scores.shape):
        expected = (0.5 if scale is None else scale) * (q[b, h, i] @ k[b, h, j])
        expected = expected if softcap is None else softcap * math.tanh(expected / softcap)
        expected += 0 if bias is None else bias[h, 0, j]
        expected = expected if full[b, h, i, j] else -math.inf
        assert scores[b, h, i, j] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_attention_is_softmax_of_the_scores_times_v():
    q, k, v = sizes.qkv()
    bias = np.random.default_rng(1).standard_normal((5, 7))
    settings = {"keep": KEEP, "bias": bias, "scale": 0.3, "softcap": 0.7}
    context, weights = reference.attention(q, k, v, **settings)
    close(weights, reference.softmax(reference.attention_scores(q, k, **settings)))
    close(context, weights @ v)


def test_a_query_that_may_attend_to_nothing_gets_zeros():
    context, weights = reference.attention(*sizes.qkv(), EMPTY)
    assert not context[:, :, 2].any()
    assert not weights[:, :, 2].any()
    assert weights[:, :, [0, 1, 3, 4]].any(axis=-1).all()


def test_grouped_heads_are_repeated_not_tiled():
    q, k, v = sizes.qkv(heads=6, kv_heads=2)
    context, weights = reference.attention(q, k, v, KEEP)
    for h in range(6):
        one = [q[:, h], k[:, h // 3], v[:, h // 3]]
        expected = [reference.attention(*(x[b] for x in one), KEEP[b, 0]) for b in range(2)]
        close(context[:, h], np.stack([c for c, _ in expected]))
        close(weights[:, h], np.stack([w for _, w in expected]))


def test_one_kv_head_serves_all_and_v_may_have_its_own_number():
    q, k, v = sizes.qkv(heads=6, kv_heads=2)
    context, _ = reference.attention(q, k, v[:, :1])
    close(context, reference.attention(q, k, np.repeat(v[:, :1], 6, axis=1))[0])
    close(reference.attention(q[1], k[1], v[1, :1])[0], context[1])  # without a batch axis
    close(reference.attention(q[1], k[1], v[1])[0], reference.attention(q, k, v)[0][1])


def test_repeat_heads_keeps_the_dtype_and_refuses_what_does_not_divide():
    k = np.arange(2 * 2 * 1 * 1, dtype=np.float32).reshape(2, 2, 1, 1)
    repeated = reference.repeat_heads(k, 6)
    assert repeated.dtype == np.float32
    assert repeated[1, :, 0, 0].tolist() == [2, 2, 2, 3, 3, 3]
    with pytest.raises(ValueError, match=r"^n_heads=5 is not a multiple of the 2 heads of k"):
        reference.repeat_heads(k, 5)


def test_attention_needs_no_head_axis_and_no_batch_axis():
    q, k, v = sizes.qkv()
    context, _ = reference.attention(q, k, v)
    close(reference.attention(q[:, 1], k[:, 1], v[:, 1])[0], context[:, 1])
    close(reference.attention(q[1, 1], k[1, 1], v[1, 1])[0], context[1, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_everything_is_computed_in_float64_whatever_comes_in(dtype):
    tensors = [torch.as_tensor(x, dtype=dtype).requires_grad_() for x in sizes.qkv()]
    exact = [x.detach().double().numpy() for x in tensors]
    for got, expected in zip(reference.attention(*tensors, KEEP),
                             reference.attention(*exact, KEEP), strict=True):
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, expected)


def test_the_layer_is_computed_in_float64_too():
    x, memory = (torch.as_tensor(side).half() for side in sizes.sides())
    W = {name: torch.as_tensor(w).half() for name, w in sizes.weights().items()}
    direction = torch.as_tensor(np.random.default_rng(1).standard_normal((2, 5, 13))).half()
    doubles = [x.double().numpy() for x in (x, memory)]
    W_doubles = {name: w.double().numpy() for name, w in W.items()}
    for got, expected in zip(reference.multi_head_attention(x, memory, W, 3, KEEP),
                             reference.multi_head_attention(*doubles, W_doubles, 3, KEEP),
                             strict=True):
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, expected)
    expected = reference.multi_head_attention_gradient(*doubles, W_doubles, 3,
                                                       direction.double().numpy(), KEEP)
    grads = reference.multi_head_attention_gradient(x, memory, W, 3, direction, KEEP)
    for name, got in grads.items():
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, expected[name], err_msg=name)


def test_a_mask_that_is_not_bool_is_refused():
    with pytest.raises(TypeError, match=re.escape("utils.masks.from_additive(keep)")):
        reference.attention(*sizes.qkv(), masks.to_additive(KEEP))


@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6))
def test_order_of_keys_does_not_matter_and_order_of_queries_carries_over(seed, batch, n_q, n_k):
    q, k, v = sizes.qkv(seed, batch=batch, n_q=n_q, n_k=n_k)
    rng = np.random.default_rng(seed)
    keep = rng.random((batch, 1, n_q, n_k)) < 0.7
    rows, columns = rng.permutation(n_q), rng.permutation(n_k)
    context, weights = reference.attention(q, k, v, keep)
    moved, moved_weights = reference.attention(
        q[:, :, rows], k[:, :, columns], v[:, :, columns], keep[:, :, rows][..., columns])
    close(moved, context[:, :, rows])
    close(moved_weights, weights[:, :, rows][..., columns])


@given(st.integers(0, 99))
def test_examples_and_heads_do_not_see_each_other(seed):
    q, k, v = sizes.qkv(seed)
    context, _ = reference.attention(q, k, v, KEEP)
    others = [x.copy() for x in (q, k, v)]
    for x in others:
        x[0], x[:, 1] = 1e6, -1e6
    changed, _ = reference.attention(*others, KEEP)
    close(changed[1, ::2], context[1, ::2])


@given(st.integers(0, 99))
def test_what_a_mask_hides_may_be_anything(seed):
    q, k, v = sizes.qkv(seed)
    hidden = k.copy(), v.copy()
    for x in hidden:
        x[1, :, 3:] = 1e6
    close(reference.attention(q, *hidden, masks.padding([7, 3], 7))[0],
          reference.attention(q, k, v, masks.padding([7, 3], 7))[0])


# --- heads and projections

def test_split_heads_gives_head_h_the_features_from_h_times_d():
    x = np.arange(2 * 5 * 12).reshape(2, 5, 12)
    split = reference.split_heads(x, 3)
    assert split.dtype == np.float64
    for h in range(3):
        np.testing.assert_array_equal(split[:, h], x[:, :, 4 * h:4 * h + 4])
    with pytest.raises(ValueError, match=r"^d_model=12 is not divisible by n_heads=5"):
        reference.split_heads(x, 5)


def test_merge_heads_puts_the_heads_side_by_side():
    heads = np.random.default_rng(0).standard_normal((2, 3, 5, 4))
    merged = reference.merge_heads(heads)
    for h in range(3):
        np.testing.assert_array_equal(merged[:, :, 4 * h:4 * h + 4], heads[:, h])
    np.testing.assert_array_equal(reference.split_heads(merged, 3), heads)


def test_project_uses_the_queries_side_for_q_and_the_memory_for_k_and_v():
    x, memory = sizes.sides()
    W = sizes.weights()
    q, k, v = reference.project(x, memory, W, 3)
    for name, side, got in (("q", x, q), ("k", memory, k), ("v", memory, v)):
        for h in range(3):
            stripe = slice(4 * h, 4 * h + 4)
            close(got[:, h], side @ W[f"W_{name}"][:, stripe] + W[f"b_{name}"][stripe])


@pytest.mark.parametrize("keep", [None, KEEP])
def test_multi_head_attention_equals_one_loop_per_head(keep):
    x, memory = sizes.sides()
    W = sizes.weights()
    out, weights = reference.multi_head_attention(x, memory, W, 3, keep)
    expected = np.broadcast_to(W["b_o"], (2, 5, 13)).copy()
    for b, h in np.ndindex(2, 3):
        s = slice(4 * h, 4 * h + 4)
        q, k, v = (side[b] @ W[f"W_{n}"][:, s] + W[f"b_{n}"][s]
                   for n, side in (("q", x), ("k", memory), ("v", memory)))
        rows = None if keep is None else keep[b, 0]
        expected[b] += reference.attention_loops(q, k, v, rows) @ W["W_o"][s]
        close(weights[b, h], reference.attention(q, k, v, rows)[1])
    close(out, expected)


# --- gradients: random upstream gradients, never .sum(), whose gradient hides a wrong softmax

def central_differences(f, x, step=1e-6):
    """Return the gradient of the number f() with respect to the array x, changed in place."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        kept = x[index]
        x[index] = kept + step
        above = f()
        x[index] = kept - step
        gradient[index] = (above - f()) / (2 * step)
        x[index] = kept
    return gradient


@pytest.mark.parametrize("keep", [None, EMPTY])
def test_attention_gradient_equals_central_differences(keep):
    q, k, v = sizes.qkv()
    grad_out = np.random.default_rng(1).standard_normal((2, 3, 5, 8))
    gradients = reference.attention_gradient(q, k, v, grad_out, keep)
    for x, gradient in zip((q, k, v), gradients, strict=True):
        numeric = central_differences(
            lambda: (reference.attention(q, k, v, keep)[0] * grad_out).sum(), x)
        close(gradient, numeric, 1e-8)
        assert np.abs(gradient).max() > 0.1


@pytest.mark.parametrize("keep", [None, KEEP, EMPTY])
def test_attention_gradient_equals_autograd_of_sdpa(keep):
    arrays = sizes.qkv()
    grad_out = np.random.default_rng(1).standard_normal((2, 3, 5, 8))
    tensors = [torch.as_tensor(x).requires_grad_() for x in arrays]
    mask = None if keep is None else torch.as_tensor(keep)
    context = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask)
    expected = torch.autograd.grad(context, tensors, torch.as_tensor(grad_out))
    for got, want in zip(reference.attention_gradient(*arrays, grad_out, keep), expected,
                         strict=True):
        close(got, want.numpy())


def test_a_query_without_keys_has_a_gradient_of_zero():
    q, k, v = sizes.qkv()
    grad_out = np.random.default_rng(1).standard_normal((2, 3, 5, 8))
    d_q, d_k, d_v = reference.attention_gradient(q, k, v, grad_out, EMPTY)
    assert not d_q[:, :, 2].any()
    assert all(np.isfinite(x).all() for x in (d_q, d_k, d_v))
    grad_out[:, :, 2] = 1e6  # what that query's context is blamed for reaches nobody
    for again, before in zip(reference.attention_gradient(q, k, v, grad_out, EMPTY),
                             (d_q, d_k, d_v), strict=True):
        np.testing.assert_array_equal(again, before)


@pytest.mark.parametrize("keep", [None, EMPTY])
def test_multi_head_gradient_equals_central_differences(keep):
    x, memory = sizes.sides()
    W = sizes.weights()
    grad_out = np.random.default_rng(1).standard_normal((2, 5, 13))
    grads = reference.multi_head_attention_gradient(x, memory, W, 3, grad_out, keep)
    everything = {"x": x, "memory": memory, **W}
    assert grads.keys() == everything.keys()
    for name, array in everything.items():
        numeric = central_differences(
            lambda: (reference.multi_head_attention(x, memory, W, 3, keep)[0] * grad_out).sum(),
            array)
        close(grads[name], numeric, 2e-8)


def test_bias_of_the_keys_has_a_gradient_of_zero_and_no_other_has():
    x, memory = sizes.sides()
    grad_out = np.random.default_rng(1).standard_normal((2, 5, 13))
    grads = reference.multi_head_attention_gradient(x, memory, sizes.weights(), 3, grad_out)
    close(grads["b_k"], 0.0)  # it shifts all scores of a query alike
    assert all(np.abs(g).max() > 0.01 for name, g in grads.items() if name != "b_k")
