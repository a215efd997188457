"""The TensorFlow programs against the reference: values, gradients, lengths, graphs, dropout."""

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st

from utils import checks, masks, reference, sizes
from utils.attention import numpy as numpy_attention, torch as torch_attention
from utils.attention.tensorflow import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    dense,
    masked_softmax,
    tf,
    transpose_output,
    transpose_qkv,
)

LENGTHS = {"all": None, "examples": np.array([7, 3]), "empty": np.array([7, 0]),
           "queries": np.array([[1, 2, 3, 7, 5], [6, 3, 0, 1, 4]])}
each_lengths = pytest.mark.parametrize("lens", LENGTHS.values(), ids=LENGTHS)
each_dtype = pytest.mark.parametrize("dtype", ["float64", "float32"])


def keep_of(lens, n_k=7):
    """Return lengths (b,) or (b, i) as a mask (b, 1, 1 or i, j); None stays None."""
    if lens is None:
        return None
    return (np.arange(n_k) < lens.reshape(len(lens), -1, 1))[:, None]


def close(got, expected):
    assert tuple(got.shape) == tuple(expected.shape)
    assert checks.difference(got, expected) <= checks.TOLERANCES[checks.dtype_name(got)]


def tensors(arrays, dtype="float64"):
    return [tf.constant(array, dtype) for array in arrays]


def one_head():
    """Return q (b, i, d), k (b, j, d), v (b, j, d_v) as arrays."""
    return [side[:, 1] for side in sizes.qkv()]


def grad_out(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def gradients(program, inputs, direction, variables=()):
    """Return the output of a program and d(sum(output * direction)) by inputs and variables."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        out = program(*inputs)
        loss = tf.reduce_sum(out * tf.cast(direction, out.dtype))
    return out, tape.gradient(loss, [*inputs, *variables])


# --- masked_softmax

def test_masked_softmax_of_a_row():
    scores = tf.math.log(tf.constant([[[1.0, 2.0, 5.0, 7.0]] * 2] * 2, tf.float64))
    close(masked_softmax(scores, np.array([3, 0])),
          np.array([[[0.125, 0.25, 0.625, 0]] * 2, [[0] * 4] * 2]))
    close(masked_softmax(scores, [[4, 1], [0, 2]]),
          np.array([[[1 / 15, 2 / 15, 5 / 15, 7 / 15], [1, 0, 0, 0]],
                    [[0] * 4, [1 / 3, 2 / 3, 0, 0]]]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@each_lengths
def test_masked_softmax_equals_the_reference_in_every_dtype(dtype, lens):
    scores = tf.constant(grad_out(2, 5, 7), dtype)
    weights = masked_softmax(scores, lens)
    assert weights.dtype == dtype
    keep = np.True_ if lens is None else keep_of(lens)[:, 0]
    close(weights, reference.softmax(np.where(keep, reference.float64(scores), -np.inf)))


def test_no_nan_is_made_on_the_way_to_an_empty_row(monkeypatch):
    softmax, made = tf.nn.softmax, []
    monkeypatch.setattr(tf.nn, "softmax", lambda *args, **options: made.append(
        softmax(*args, **options)) or made[-1])
    masked_softmax(tf.constant(grad_out(2, 5, 7)), LENGTHS["empty"])
    assert np.isfinite(made).all()
    assert len(made) == 1


@pytest.mark.parametrize("make", [np.int64, np.int32, np.uint8, list, tf.constant],
                         ids=["int64", "int32", "uint8", "list", "tensor"])
def test_lengths_are_integers_of_any_kind(make):
    scores = tf.constant(grad_out(2, 5, 7))
    lens = make([7, 3])
    close(masked_softmax(scores, lens), masked_softmax(scores, LENGTHS["examples"]))


@given(st.integers(0, 99), st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_any_sizes_and_any_lengths_equal_the_reference(seed, batch, n_q, n_k, for_each_query):
    q, k, v = (x[:, 0] for x in sizes.qkv(seed, batch=batch, heads=1, n_q=n_q, n_k=n_k))
    lens = np.random.default_rng(seed).integers(
        n_k + 1, size=(batch, n_q) if for_each_query else batch)
    got = DotProductAttention(0.0, dtype="float64")(q, k, v, lens)
    close(got, reference.attention(q, k, v, keep_of(lens, n_k)[:, 0])[0])


def test_lengths_that_do_not_fit_are_refused_eagerly_and_in_a_graph():
    scores = tf.zeros((2, 5, 7))
    message = ("valid_lens must be (2,), one length for each example, or (2, 5), one for each "
               "query, got (2, 7) for scores (2, 5, 7)")
    with raises(ValueError, message):
        masked_softmax(scores, np.zeros((2, 7), int))
    with pytest.raises(ValueError, match=r"valid_lens must be \(2,\), .* got \(2, 7\) for scores"):
        tf.function(masked_softmax)(scores, tf.zeros((2, 7), tf.int32))


# --- one head

@each_dtype
@each_lengths
def test_dot_product_context_weights_and_gradients_equal_the_reference(dtype, lens):
    layer = DotProductAttention(0.5, dtype=dtype)
    inputs, direction = tensors(one_head(), dtype), grad_out(2, 5, 8)
    context, grads = gradients(lambda *x: layer(*x, lens), inputs, direction)
    keep = None if lens is None else keep_of(lens)[:, 0]
    for got, want in zip((context, layer.attention_weights),
                         reference.attention(*inputs, keep), strict=True):
        assert got.dtype == dtype
        close(got, want)
    for got, want in zip(grads, reference.attention_gradient(*inputs, direction, keep),
                         strict=True):
        close(got, want)


def additive_case(dtype="float64"):
    """Return q (b, i, 3), k (b, j, 4), v (b, j, 8) and W_q (3, 6), W_k (4, 6), w_v (6,)."""
    rng = np.random.default_rng(2)
    return [rng.standard_normal(shape).astype(dtype)
            for shape in ((2, 5, 3), (2, 7, 4), (2, 7, 8), (3, 6), (4, 6), (6,))]


@each_dtype
@each_lengths
def test_additive_attention_is_one_function_in_three_frameworks(dtype, lens):
    arrays, direction = additive_case(dtype), grad_out(2, 5, 8)
    keep = None if lens is None else keep_of(lens)[:, 0]
    expected, expected_weights = numpy_attention.additive_attention(
        *map(reference.float64, arrays), keep)
    leaves = [torch.as_tensor(array).requires_grad_() for array in arrays]
    context, weights = torch_attention.additive_attention(*leaves, keep)
    wanted = torch.autograd.grad(context, leaves, torch.as_tensor(direction, dtype=context.dtype))

    layer = AdditiveAttention(4, 3, 6, 0.5, dtype=dtype)
    for part, array in zip((layer.W_q, layer.W_k, layer.w_v), arrays[3:], strict=True):
        part.kernel.assign(array.reshape(part.kernel.shape))
    variables = [part.kernel for part in (layer.W_q, layer.W_k, layer.w_v)]
    got, grads = gradients(lambda *x: layer(*x, lens), tensors(arrays[:3], dtype), direction,
                           variables)
    close(numpy_attention.additive_attention(*arrays, keep)[0], expected)
    close(context, expected)
    close(weights, expected_weights)
    close(got, expected)
    close(layer.attention_weights, weights)
    for a, b in zip(grads, wanted, strict=True):
        close(tf.reshape(a, b.shape), b)


def test_additive_attention_pair_by_pair():
    q, k, v, W_q, W_k, w_v = additive_case()
    lens, expected = LENGTHS["queries"], np.zeros((2, 5, 8))
    for b, i in np.ndindex(2, 5):
        exps = np.array([np.exp(w_v @ np.tanh(W_q.T @ q[b, i] + W_k.T @ k[b, j]))
                         for j in range(lens[b, i])])
        expected[b, i] = exps @ v[b, :lens[b, i]] / exps.sum() if lens[b, i] else 0
    context, _ = numpy_attention.additive_attention(q, k, v, W_q, W_k, w_v, keep_of(lens)[:, 0])
    close(context, expected)


@pytest.mark.parametrize(("framework", "module"), [(np.asarray, numpy_attention),
                                                   (torch.as_tensor, torch_attention)])
def test_additive_attention_refuses_a_mask_that_does_not_fit(framework, module):
    inputs = [framework(array) for array in additive_case()]
    with raises(ValueError, "keep (7, 5) does not broadcast to the scores (2, 5, 7): axis j "
                            "has size 7 in the scores, 5 in keep; is it transposed? The axis of "
                            "queries comes before that of keys"):
        module.additive_attention(*inputs, np.ones((7, 5), bool))


# --- heads

def test_head_h_of_example_b_is_row_b_times_heads_plus_h():
    x = sizes.sides(d_in=12)[0]
    folded, expected = transpose_qkv(tf.constant(x), 3), reference.split_heads(x, 3)
    assert folded.shape == (6, 5, 4)
    for b, h in np.ndindex(2, 3):
        np.testing.assert_array_equal(folded[b * 3 + h], expected[b, h])


def test_transpose_output_puts_the_heads_side_by_side():
    context = sizes.qkv()[2]                                   # (b, h, j, d_v)
    folded = tf.constant(context.reshape(6, 7, 8))
    np.testing.assert_array_equal(transpose_output(folded, 3), reference.merge_heads(context))


def test_heads_that_do_not_divide_are_refused():
    message = ("d_model=10 is not divisible by n_heads=3 (remainder 1); nearest divisors: 1, 2, "
               "5, 10")
    with raises(ValueError, message):
        transpose_qkv(tf.zeros((2, 5, 10)), 3)
    with raises(ValueError, message):
        MultiHeadAttention(10, 10, 10, 10, 3, 0.0)


@pytest.mark.parametrize("bias", [False, True])
def test_dense_has_its_weights_before_the_first_call(bias):
    layer = dense("W_q", 3, 4, bias, "float64")
    assert [(w.path, tuple(w.shape)) for w in layer.weights] == [
        ("W_q/kernel", (3, 4)), ("W_q/bias", (4,))][:1 + bias]
    x = grad_out(2, 3)
    close(layer(x), x @ layer.kernel.numpy())


# --- the layer

def loaded(W, dropout=0.5, bias=True, dtype="float64", heads=3):
    """Return a layer that holds a weight set of ``sizes.weights``."""
    sizes_in = [W[f"W_{name}"].shape[0] for name in "kqv"]
    layer = MultiHeadAttention(*sizes_in, W["W_q"].shape[1], heads, dropout, bias, dtype=dtype)
    for name in "qkvo":
        getattr(layer, f"W_{name}").kernel.assign(W[f"W_{name}"])
        if bias:
            getattr(layer, f"W_{name}").bias.assign(W[f"b_{name}"])
    return layer


def weight_set(bias=True):
    return sizes.weights(d_out=12, bias=bias)


@pytest.mark.parametrize("bias", [False, True])
@each_dtype
@each_lengths
def test_multi_head_output_and_weights_equal_the_reference(bias, dtype, lens):
    W, (x, memory) = weight_set(bias), sizes.sides()
    layer = loaded(W, bias=bias, dtype=dtype)
    out = layer(*tensors((x, memory, memory), dtype), lens)
    expected, weights = reference.multi_head_attention(x, memory, W, 3, keep_of(lens))
    assert out.dtype == dtype
    close(out, expected)
    close(tf.reshape(layer.attention.attention_weights, (2, 3, 5, 7)), weights)


@each_dtype
@each_lengths
def test_multi_head_gradients_equal_the_reference(dtype, lens):
    W, sides, direction = weight_set(), sizes.sides(), grad_out(2, 5, 12)
    layer = loaded(W, dtype=dtype)
    variables = {f"{kind}_{name}": value for name in "qkvo" for kind, value in zip(
        "Wb", getattr(layer, f"W_{name}").trainable_variables, strict=True)}
    _, grads = gradients(lambda x, memory: layer(x, memory, memory, lens), tensors(sides, dtype),
                         direction, variables.values())
    expected = reference.multi_head_attention_gradient(*sides, W, 3, direction, keep_of(lens))
    for name, got in zip(("x", "memory", *variables), grads, strict=True):
        close(got, expected[name])


def test_self_attention_with_causal_lengths_equals_the_reference():
    W, (_, x) = weight_set(), sizes.sides()
    lens = np.minimum(np.arange(7) + 1, np.array([[7], [3]]))  # (b, i)
    close(loaded(W)(x, x, x, lens),
          reference.multi_head_attention(x, x, W, 3, masks.decoder([7, 3], 7))[0])


def test_keys_queries_and_values_may_have_three_widths():
    W, rng = weight_set(), np.random.default_rng(5)
    inputs = [rng.standard_normal(shape) for shape in ((2, 5, 9), (2, 7, 10), (2, 7, 8))]
    for name, side in zip("qkv", inputs, strict=True):
        W[f"W_{name}"] = rng.standard_normal((side.shape[-1], 12))
    q, k, v = (reference.split_heads(side @ W[f"W_{name}"] + W[f"b_{name}"], 3)
               for name, side in zip("qkv", inputs, strict=True))
    context, _ = reference.attention(q, k, v, keep_of(LENGTHS["queries"]))
    close(loaded(W)(*inputs, LENGTHS["queries"]),
          reference.merge_heads(context) @ W["W_o"] + W["b_o"])


@pytest.mark.parametrize("which", range(3))
def test_inputs_of_another_width_than_promised_are_refused(which):
    inputs = [np.zeros(shape) for shape in ((2, 5, 11), (2, 7, 11), (2, 7, 11))]
    inputs[which] = inputs[which][..., :9]
    with pytest.raises(ValueError, match=rf"layer 'W_{'qkv'[which]}' is incompatible.*value 11"):
        loaded(weight_set())(*inputs, None)


@given(st.integers(0, 99), st.integers(1, 4), st.integers(1, 4))
def test_each_example_keeps_its_length_in_every_head(seed, batch, heads):
    W = sizes.weights(seed, d_model=2 * heads, d_out=2 * heads)
    x, memory = sizes.sides(seed, batch=batch)
    lens = np.random.default_rng(seed).integers(8, size=batch)
    close(loaded(W, heads=heads)(x, memory, memory, lens),
          reference.multi_head_attention(x, memory, W, heads, keep_of(lens))[0])


def test_an_example_without_keys_gives_the_output_bias_and_a_zero_gradient():
    W, inputs = weight_set(), tensors(sizes.sides())
    layer = loaded(W)
    out, grads = gradients(lambda x, memory: layer(x, memory, memory, LENGTHS["empty"]), inputs,
                           grad_out(2, 5, 12), layer.trainable_variables)
    close(out[1], np.broadcast_to(W["b_o"], (5, 12)))
    assert all(np.isfinite(grad).all() for grad in grads)
    assert not grads[0][1].numpy().any()
    assert not grads[1][1].numpy().any()
    assert grads[1][0].numpy().all()


def test_what_padding_holds_changes_nothing_that_is_kept():
    x, memory = sizes.sides()
    loud = memory.copy()
    loud[1, 3:] = 1e6
    layer, lens = loaded(weight_set()), LENGTHS["examples"]
    np.testing.assert_array_equal(layer(x, loud, loud, lens), layer(x, memory, memory, lens))


# --- graphs

def signature(lens):
    side = tf.TensorSpec((None, None, 11), tf.float64)
    return [side, side, tf.TensorSpec((None,) * lens.ndim, tf.int64)]


@pytest.mark.parametrize("lens", [LENGTHS["empty"], LENGTHS["queries"]], ids=["(b,)", "(b, i)"])
def test_one_graph_serves_every_batch_size_and_length(lens):
    W, (x, memory) = weight_set(), sizes.sides()
    layer = loaded(W)

    @tf.function(input_signature=signature(lens))
    def graph(x, memory, lens):
        return layer(x, memory, memory, lens), layer.attention.attention_weights

    for batch in (2, 1):
        expected, weights = reference.multi_head_attention(
            x[:batch], memory[:batch], W, 3, keep_of(lens[:batch]))
        out, folded = graph(x[:batch], memory[:batch], lens[:batch])
        close(out, expected)
        close(folded, weights.reshape(-1, 5, 7))
    out, _ = graph(x[:, :4], memory[:, :6], np.minimum(lens[..., :4], 6))
    close(out, reference.multi_head_attention(
        x[:, :4], memory[:, :6], W, 3, keep_of(np.minimum(lens[..., :4], 6), 6))[0])
    assert graph.experimental_get_tracing_count() == 1


def test_lengths_known_before_the_sizes_of_the_scores_are_fine():
    scores, lens = tf.constant(grad_out(2, 5, 7)), LENGTHS["examples"]

    for shape in ((None, None, None), (2, 5, None)):
        graph = tf.function(lambda scores: masked_softmax(scores, lens),
                            input_signature=[tf.TensorSpec(shape, tf.float64)])
        close(graph(scores), masked_softmax(scores, lens))


def test_sizes_of_the_scores_known_before_the_lengths_are_fine():
    scores, lens = tf.constant(grad_out(2, 5, 7)), LENGTHS["examples"]
    close(tf.function(masked_softmax)(scores, tf.constant(lens)), masked_softmax(scores, lens))


def test_gradients_in_a_graph_equal_the_reference():
    W, (x, memory), direction = weight_set(), sizes.sides(), grad_out(2, 5, 12)
    layer = loaded(W)

    @tf.function(input_signature=signature(LENGTHS["empty"]))
    def graph(x, memory, lens):
        return gradients(lambda *sides: layer(*sides, sides[1], lens), [x, memory], direction)[1]

    expected = reference.multi_head_attention_gradient(
        x, memory, W, 3, direction, keep_of(LENGTHS["empty"]))
    for got, name in zip(graph(x, memory, LENGTHS["empty"]), ("x", "memory"), strict=True):
        close(got, expected[name])


def test_a_keras_model_of_the_layer_equals_the_reference():
    W, (x, memory) = weight_set(), sizes.sides()
    inputs = [*(tf.keras.Input((None, 11), dtype="float64") for _ in "qkv"),
              tf.keras.Input((), dtype="int32")]
    model = tf.keras.Model(inputs, loaded(W)(*inputs))
    close(model([x, memory, memory, LENGTHS["examples"]]),
          reference.multi_head_attention(x, memory, W, 3, keep_of(LENGTHS["examples"]))[0])


# --- dropout and configuration

def test_evaluation_drops_nothing_and_training_does():
    W, (x, memory) = weight_set(), sizes.sides()
    layer = loaded(W, dropout=0.5)
    out, again = (layer(x, memory, memory, None, training=True) for _ in range(2))
    assert (out.numpy() != again.numpy()).any()
    expected, weights = reference.multi_head_attention(x, memory, W, 3)
    close(tf.reshape(layer.attention.attention_weights, (2, 3, 5, 7)), weights)  # before dropout
    for training in (None, False):
        close(layer(x, memory, memory, None, training=training), expected)
    close(loaded(W, dropout=0.0)(x, memory, memory, None, training=True), expected)


@pytest.mark.parametrize("make", [lambda: DotProductAttention(0.25, dtype="float64"),
                                  lambda: AdditiveAttention(4, 4, 6, 0.25, dtype="float64")],
                         ids=["dot", "additive"])
def test_dropout_drops_its_share_of_the_weights_and_scales_what_it_keeps(make):
    tf.random.set_seed(0)
    q, k, v = one_head()
    many = [np.repeat(side[:1], 4000, axis=0) for side in (q, k, v)]
    context = make()(*many, np.ones(4000, int), training=True).numpy()  # one key: kept or dropped
    kept = context.any(axis=-1)
    close(context, np.where(kept[..., None], v[0, 0] / 0.75, 0))
    assert abs(kept.mean() - 0.75) < 5 * (0.75 * 0.25 / kept.size) ** 0.5


@pytest.mark.parametrize("make", [
    lambda: MultiHeadAttention(11, 10, 9, 12, 3, 0.5, True, dtype="float64"),
    lambda: AdditiveAttention(4, 3, 6, 0.25, dtype="float64"),
    lambda: DotProductAttention(0.25, name="mine")], ids=["multi-head", "additive", "dot"])
def test_a_layer_can_be_made_again_from_its_configuration(make):
    layer = make()
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert [(w.shape, w.dtype) for w in again.weights] == [(w.shape, w.dtype)
                                                           for w in layer.weights]


def test_weights_are_named_and_ordered_as_keras_lists_them():
    layer = MultiHeadAttention(11, 10, 9, 12, 3, 0.5, True)
    assert [(w.path, tuple(w.shape)) for w in layer.weights] == [
        ("W_q/kernel", (10, 12)), ("W_q/bias", (12,)), ("W_k/kernel", (11, 12)),
        ("W_k/bias", (12,)), ("W_v/kernel", (9, 12)), ("W_v/bias", (12,)),
        ("W_o/kernel", (12, 12)), ("W_o/bias", (12,))]
    assert len(MultiHeadAttention(11, 10, 9, 12, 3, 0.5).weights) == 4
    assert [(w.path, tuple(w.shape)) for w in AdditiveAttention(4, 3, 6, 0.5).weights] == [
        ("W_k/kernel", (4, 6)), ("W_q/kernel", (3, 6)), ("w_v/kernel", (6, 1))]


def test_half_precision_has_no_nan_and_empty_rows_are_zero():
    x, memory = sizes.sides()
    layer = MultiHeadAttention(11, 11, 11, 12, 3, 0.5, dtype="mixed_float16")
    out = layer(x, memory, memory, LENGTHS["empty"])
    assert out.dtype == "float16"
    assert np.isfinite(out).all()
    assert not out[1].numpy().any()
    assert out[0].numpy().all()
