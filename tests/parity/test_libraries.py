"""The same weights in our programs and in the libraries' layers, over random settings.

Every mask goes through the converter of its library. No query is without keys here: on those the
libraries differ, among themselves too.
"""

from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st
from torch import nn

from utils import checks, frameworks, masks, reference, sizes
from utils.attention import numpy as numpy_attention
from utils.attention.heads import merge_heads, split_heads
from utils.attention.torch import MultiHeadAttention, attention, attention_per_head, fused_attention

DTYPES = {"float64": torch.float64, "float32": torch.float32}


class Setting(NamedTuple):
    """One weight set, its two sides and a mask (b, 1 or h, i, j) that hides no row."""

    heads: int
    weights: dict
    x: np.ndarray
    memory: np.ndarray
    keep: np.ndarray


@st.composite
def settings(draw, per_head=True, square=True, d_heads=(1, 2, 3, 4, 5), shortest=1):
    """Draw a Setting; ``square``: d_in = d_model = d_out, as nn.MultiheadAttention wants them."""
    seed, batch, heads, n_q, n_k = (draw(st.integers(*ends)) for ends in (
        (0, 999), (1, 3), (1, 4), (1, 6), (shortest, 6)))
    d_head = draw(st.sampled_from(d_heads))
    d_model = heads * d_head
    d_in, d_out = (d_model, d_model) if square else (draw(st.integers(1, 9)) for _ in range(2))
    x, memory = sizes.sides(seed, batch=batch, n_q=n_q, n_k=n_k, d_in=d_in)
    W = sizes.weights(seed, d_in=d_in, d_model=d_model, d_out=d_out, bias=draw(st.booleans()))
    rng = np.random.default_rng(seed)
    shape = (batch, heads if per_head and draw(st.booleans()) else 1, n_q, n_k)
    keep = rng.random(shape) < draw(st.sampled_from([0.3, 0.7, 1.0]))
    keep |= np.arange(n_k) == rng.integers(n_k, size=(*shape[:3], 1))
    return Setting(heads, W, x, memory, keep)


def close(got, expected, dtype):
    assert tuple(got.shape) == tuple(expected.shape)
    assert checks.difference(got, expected) <= checks.TOLERANCES[dtype]


def tensors(*arrays, dtype):
    return [torch.as_tensor(x, dtype=DTYPES[dtype]).requires_grad_() for x in arrays]


def load(parameters, arrays):
    """Copy arrays into parameters, in order."""
    with torch.no_grad():
        for parameter, array in zip(parameters, arrays, strict=True):
            parameter.copy_(torch.as_tensor(array))


def packed(W):
    """Return the projections as PyTorch packs them: (3 * d_model, d_in), (3 * d_model,)."""
    return (np.concatenate([W[f"W_{n}"] for n in "qkv"], axis=1).T,
            np.concatenate([W[f"b_{n}"] for n in "qkv"]))


def ours(W, heads, dtype):
    d_in, d_model = W["W_q"].shape
    module = MultiHeadAttention(d_model, heads, d_in=d_in, d_out=W["W_o"].shape[1])
    module.to(DTYPES[dtype])
    load(module.parameters(), (*packed(W), W["W_o"].T, W["b_o"]))
    return module


def torch_layer(W, heads, dtype):
    layer = nn.MultiheadAttention(W["W_q"].shape[1], heads, batch_first=True, dtype=DTYPES[dtype])
    load(layer.parameters(), (*packed(W), W["W_o"].T, W["b_o"]))
    return layer


@pytest.mark.parametrize("dtype", DTYPES)
@given(settings(), st.integers(0, 99))
def test_nn_multihead_attention_outputs_weights_and_gradients(dtype, setting, seed):
    heads, W, *sides, keep = setting
    x, memory = tensors(*sides, dtype=dtype)
    module, layer = ours(W, heads, dtype), torch_layer(W, heads, dtype)
    theirs = layer(x, memory, memory, attn_mask=masks.to_torch_mha(keep, heads),
                   average_attn_weights=False)
    mine = module(x, memory, keep, return_weights=True)
    for got, expected in zip(mine, theirs, strict=True):
        close(got, expected, dtype)
    direction = tensors(np.random.default_rng(seed).standard_normal(mine[0].shape), dtype=dtype)
    got = torch.autograd.grad(mine[0], (x, memory, *module.parameters()), direction)
    want = torch.autograd.grad(theirs[0], (x, memory, *layer.parameters()), direction)
    for a, b in zip(got, want, strict=True):
        close(a, b, dtype)


@given(settings())
def test_nn_multihead_attention_without_weights_and_with_a_mask_for_all(setting):
    heads, W, *sides, keep = setting
    x, memory = tensors(*sides, dtype="float64")
    for_all = keep[0, 0]
    expected, _ = torch_layer(W, heads, "float64")(
        x, memory, memory, attn_mask=masks.to_torch_mha(for_all, heads), need_weights=False)
    close(ours(W, heads, "float64")(x, memory, for_all), expected, "float64")


@given(settings())
def test_the_reference_and_the_numpy_program_equal_nn_multihead_attention(setting):
    heads, W, x, memory, keep = setting
    layer = torch_layer(W, heads, "float64")
    expected, weights = layer(*tensors(x, memory, memory, dtype="float64"),
                              attn_mask=masks.to_torch_mha(keep, heads),
                              average_attn_weights=False)
    out, got_weights = reference.multi_head_attention(x, memory, W, heads, keep)
    close(out, expected, "float64")
    close(got_weights, weights, "float64")
    causal = masks.causal(x.shape[1])
    expected, _ = layer(*tensors(x, x, x, dtype="float64"),
                        attn_mask=masks.to_torch_mha(causal, heads))
    w, b = packed(W)
    close(numpy_attention.mha(x, {"w": w.T, "b": b}, {"w": W["W_o"], "b": W["b_o"]}, heads, causal),
          expected, "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@given(settings(), st.integers(1, 5))
def test_scaled_dot_product_attention(dtype, setting, d_v):
    heads, W, x, memory, keep = setting
    q, k, _ = (np.ascontiguousarray(side) for side in reference.project(x, memory, W, heads))
    v = sizes.qkv(batch=len(k), heads=heads, n_k=k.shape[2], d_v=d_v)[2]
    q, k, v = inputs = tensors(q, k, v, dtype=dtype)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=masks.to_sdpa(keep))
    arrays = [x.detach().numpy() for x in inputs]
    close(attention(q, k, v, keep)[0], expected, dtype)
    close(fused_attention(q, k, v, keep), expected, dtype)
    close(numpy_attention.attention(*arrays, keep)[0], expected, dtype)
    close(reference.attention(*arrays, keep)[0], expected, dtype)
    if d_v == q.shape[-1]:
        one_by_one, _ = attention_per_head(*map(merge_heads, inputs), heads, keep)
        close(split_heads(one_by_one, heads), expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_causal_scaled_dot_product_attention(dtype):
    q, k, v = tensors(*sizes.qkv(n_q=7), dtype=dtype)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    close(fused_attention(q, k, v, causal=True), expected, dtype)
    close(attention(q, k, v, masks.causal(7))[0], expected, dtype)


# --- Keras

@pytest.fixture(scope="module")
def keras_layer():
    """Return a function that makes a Keras layer with our weights."""
    frameworks.tensorflow()
    import keras

    def make(setting, dtype):
        heads, W = setting.heads, setting.weights
        d_in, d_model = W["W_q"].shape
        d_head = d_model // heads
        layer = keras.layers.MultiHeadAttention(heads, key_dim=d_head, dtype=dtype,
                                                output_shape=W["W_o"].shape[1])
        layer.build(setting.x.shape, setting.memory.shape)
        kernels = []
        for name in "qkv":
            kernels += [W[f"W_{name}"].reshape(d_in, heads, d_head),
                        W[f"b_{name}"].reshape(heads, d_head)]
        layer.set_weights([*kernels, W["W_o"].reshape(heads, d_head, -1), W["b_o"]])
        return layer

    return make


# Keras 3.15 rounds 1 / sqrt(key_dim) to float32, which is exact for 4 and 16; with key_dim=1 and as
# many keys as heads its TensorFlow backend adds the bias of head h to key h; of one key it warns.
KERAS = settings(per_head=False, square=False, d_heads=(4, 16), shortest=2)


@pytest.mark.parametrize("dtype", DTYPES)
@given(KERAS)
def test_keras_multi_head_attention(keras_layer, dtype, setting):
    heads, W, x, memory, keep = setting
    batch, n_q, _ = x.shape
    layer = keras_layer(setting, dtype)
    sides = [side.astype(dtype) for side in (x, memory)]
    expected, weights = (value.numpy() for value in layer(
        *sides, attention_mask=masks.to_keras(keep, batch, n_q), return_attention_scores=True))
    out, got_weights = ours(W, heads, dtype)(*tensors(x, memory, dtype=dtype), keep,
                                             return_weights=True)
    close(out, expected, dtype)
    close(got_weights, weights, dtype)
    for got, want in zip(reference.multi_head_attention(x, memory, W, heads, keep),
                         (expected, weights), strict=True):
        close(got, want, dtype)


def test_keras_gradients(keras_layer):
    tf = frameworks.tensorflow()
    W, sides = sizes.weights(), sizes.sides()
    keep = masks.padding([7, 3], 7)
    layer = keras_layer(Setting(3, W, *sides, keep), "float64")
    direction = np.random.default_rng(1).standard_normal((2, 5, 13))
    with tf.GradientTape() as tape:
        x, memory = (tf.Variable(side) for side in sides)
        out = layer(x, memory, attention_mask=masks.to_keras(keep, 2, 5))
    got = tape.gradient(out, [x, memory, *layer.trainable_variables], direction)
    expected = reference.multi_head_attention_gradient(*sides, W, 3, direction, keep)
    order = ("x", "memory", *(f"{kind}_{name}" for name in "qkvo" for kind in ("W", "b")))
    for name, gradient in zip(order, got, strict=True):
        close(np.reshape(gradient, expected[name].shape), expected[name], "float64")
