"""The JAX programs against the reference: values, gradients, masks, compiled or not."""

import warnings

import numpy as np
import pytest
from exact import raises
from first import first

from utils import checks, frameworks, masks, reference, sizes
from utils.attention.jax import HEAD_AXES, attention, jax, multi_head_attention, one_head
from utils.parity import weights

W = sizes.weights(1)
WIDE_V = W | {name: sizes.weights(1, d_model=24)[name] for name in ("W_v", "W_o", "b_v")}
X, MEMORY = sizes.sides(2)
PADDING = masks.padding([7, 4], 7)
KEEP = PADDING & masks.causal(5, 7, "bottom_right")
EMPTY = KEEP.copy()
EMPTY[1, :, 2] = False
PER_HEAD = np.random.default_rng(3).random((2, 3, 5, 7)) < 0.5
MASKS = {"none": None, "padding": PADDING, "causal": masks.causal(5, 7, "top_left"),
         "both": KEEP, "a fully masked row": EMPTY, "for each head": PER_HEAD}
each_mask = pytest.mark.parametrize("keep", MASKS.values(), ids=MASKS)
each_way = pytest.mark.parametrize("way", [lambda f: f, jax.jit], ids=["as it is", "compiled"])


def close(got, expected, dtype="float64"):
    assert (got.dtype, got.shape) == (np.dtype(dtype), expected.shape)
    assert checks.difference(got, expected) <= checks.TOLERANCES[dtype]


@each_way
@each_mask
def test_attention_is_the_reference(keep, way):
    q, k, v = sizes.qkv()
    with frameworks.jax_float64():
        got = way(attention)(q, k, v, keep)
    for ours, theirs in zip(got, reference.attention(q, k, v, keep), strict=True):
        close(ours, theirs)
    for ours, theirs in zip(way(attention)(*map(jax.numpy.asarray, (q, k, v)), keep),
                            reference.attention(q, k, v, keep), strict=True):
        close(ours, theirs, "float32")


@each_mask
def test_gradients_of_attention_are_those_of_the_reference(keep):
    q, k, v = sizes.qkv()
    grad_out = np.random.default_rng(4).standard_normal((2, 3, 5, 8))
    with frameworks.jax_float64():
        found = jax.jit(jax.grad(lambda *sides: (attention(*sides, keep)[0] * grad_out).sum(),
                                 argnums=(0, 1, 2)))(q, k, v)
    for ours, theirs in zip(found, reference.attention_gradient(q, k, v, grad_out, keep),
                            strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("W", first([WIDE_V, W]), ids=["wide v", "v as k"])
@each_mask
def test_the_layer_and_its_gradients_are_those_of_the_reference(keep, W):
    params = weights.to_jax(W, 3)
    grad_out = np.random.default_rng(5).standard_normal((2, 5, 13))

    def loss(params, x, memory, keep):
        out = multi_head_attention(params, x, memory, keep)
        return (out * grad_out).sum(), out

    with frameworks.jax_float64():
        (d_params, d_x, d_memory), out = jax.jit(jax.grad(loss, (0, 1, 2), has_aux=True))(
            params, X, MEMORY, keep)
    close(out, reference.multi_head_attention(X, MEMORY, W, 3, keep)[0])
    expected = reference.multi_head_attention_gradient(X, MEMORY, W, 3, grad_out, keep)
    found = {"x": d_x, "memory": d_memory} | weights.from_jax(d_params)
    for name, gradient in expected.items():
        close(found[name], gradient)


def test_the_memory_may_have_another_width():
    memory = sizes.sides(6, d_in=9)[1]
    other = W | {name: sizes.weights(6, d_in=9)[name] for name in ("W_k", "W_v")}
    params = weights.to_jax(W, 3) | {name: other[name].reshape(9, 3, 4) for name in ("W_k", "W_v")}
    with frameworks.jax_float64():
        close(multi_head_attention(params, X, memory, KEEP),
              reference.multi_head_attention(X, memory, other, 3, KEEP)[0])


def test_a_compiled_layer_takes_another_mask_at_each_call():
    params, compiled = weights.to_jax(W, 3), jax.jit(multi_head_attention)
    with frameworks.jax_float64():
        for keep in (PADDING, masks.padding([2, 7], 7), EMPTY):
            close(compiled(params, X, MEMORY, keep),
                  reference.multi_head_attention(X, MEMORY, W, 3, keep)[0])


def test_the_heads_add_up_and_a_fully_masked_row_is_the_bias():
    params = weights.to_jax(W, 3)
    with frameworks.jax_float64():
        shares = [one_head({name: np.take(params[name], h, axis)
                            for name, axis in HEAD_AXES.items()}, X, MEMORY, EMPTY[:, 0])
                  for h in range(3)]
        out = multi_head_attention(params, X, MEMORY, EMPTY)
        close(sum(shares) + W["b_o"], np.asarray(out))
    assert np.array_equal(out[1, 2], W["b_o"])


def test_without_the_context_arrays_become_float32_and_nothing_is_said():
    with warnings.catch_warnings(action="error"):
        out = multi_head_attention(weights.to_jax(W, 3), X, MEMORY, KEEP)
    close(out, reference.multi_head_attention(X, MEMORY, W, 3, KEEP)[0], "float32")


PARAMS = weights.to_jax(W, 3)
NAMES = "W_q, W_k, W_v, b_q, b_k, b_v, W_o, b_o"


@each_way
@pytest.mark.parametrize(("params", "x", "keep", "error", "message"), [
    ({"W_q": PARAMS["W_q"]}, X, None, ValueError,
     f"params must hold {NAMES}, but lacks W_k, W_v, b_q, b_k, b_v, W_o, b_o"),
    (PARAMS | {"W_q": W["W_q"]}, X, None, ValueError, "W_q must be (e, h, d), got (11, 12)"),
    (PARAMS | {"W_o": PARAMS["W_o"].swapaxes(0, 1)}, X, None, ValueError,
     "W_o must be (h, c, o), got (4, 3, 13): axis h has size 4 here, and 3 in an earlier array"),
    (PARAMS, X[0], None, ValueError, "x must be (b, i, e), got (5, 11)"),
    (PARAMS, X[:1], None, ValueError,
     "memory must be (b, j, f), got (2, 7, 11): axis b has size 2 here, and 1 in an earlier array"),
    (PARAMS, X.astype(int), None, TypeError,
     "x must hold floating-point numbers, got {}: the results are fractions"),
    (PARAMS, X, KEEP[:, 0], ValueError,
     "keep (2, 5, 7) is ambiguous for scores (b, h, i, j) = (2, 3, 5, 7): if its first axis is "
     "the examples, pass keep[:, None]; if it is the heads, keep[None]"),
    (PARAMS, X, KEEP.swapaxes(2, 3), ValueError,
     "keep (2, 1, 7, 5) does not broadcast to the scores (2, 3, 5, 7): axis j has size 7 in the "
     "scores, 5 in keep; is it transposed? The axis of queries comes before that of keys"),
])
def test_what_does_not_fit_is_refused_compiled_or_not(params, x, keep, error, message, way):
    integers = "int32" if way is jax.jit else "int64"  # JAX' own, without the context
    with raises(error, message.format(integers)):
        way(multi_head_attention)(params, x, MEMORY, keep)


def test_a_mask_that_is_not_bool_is_refused_and_its_values_named_if_they_are_known():
    ones = KEEP.astype(np.float32)
    with raises(TypeError, "keep must be bool (True = may attend), got a float32 mask of 0 and 1; "
                           "most programs would *add* it to the scores, which masks nothing"):
        multi_head_attention(PARAMS, X, MEMORY, ones)
    with raises(TypeError, "keep must be bool (True = may attend), got float32"):
        jax.jit(multi_head_attention)(PARAMS, X, MEMORY, ones)


def test_arrays_of_other_frameworks_are_refused():
    torch = pytest.importorskip("torch")
    with raises(TypeError, "x must be a JAX or a NumPy array, got a PyTorch tensor"):
        multi_head_attention(PARAMS, torch.as_tensor(X), MEMORY)
    q, k, v = sizes.qkv()
    with raises(TypeError, "q is a JAX array, but k is a NumPy array: convert one of them"):
        attention(jax.numpy.asarray(q), k, v)
