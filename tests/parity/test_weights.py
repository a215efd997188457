"""One weight set in every layout: the same bits there and back, and the same attention there."""

import numpy as np
import pytest
import torch
from exact import raises
from torch import nn

from utils import checks, frameworks, masks, reference, sizes
from utils.attention import numpy as numpy_attention
from utils.attention.einsum import MultiHeadAttentionNew
from utils.attention.sequence_first import MultiHeadAttention as SequenceFirst
from utils.attention.torch import MultiHeadAttention
from utils.parity import weights

HEADS, D_HEAD = sizes.HEADS, sizes.D_HEAD
W = sizes.weights()
SQUARE = sizes.weights(d_in=12, d_out=12)
# Heads of v have 8 features, of q and k 4.
WIDE_V = W | {name: sizes.weights(1, d_model=24)[name] for name in ("W_v", "W_o", "b_v")}
CROSS = SQUARE | {"W_k": sizes.weights(d_in=10)["W_k"], "W_v": sizes.weights(d_in=9)["W_v"]}
EINSUM, SEQUENCE_FIRST = weights.NAMES["einsum"], weights.NAMES["sequence_first"]
LINEAR = {name: (lambda W, names=names: weights.to_linear(W, names),
                 lambda params, names=names: weights.from_linear(params, names))
          for name, names in weights.NAMES.items()}
KERAS = (lambda W: weights.to_keras(W, HEADS), weights.from_keras)
LAYOUTS = {
    **{f"linear {name}": (W, *pair) for name, pair in LINEAR.items()},
    "linear, wide v": (WIDE_V, *LINEAR["einsum"]),
    "W_qkv": (W, weights.to_qkv_module, weights.from_qkv_module),
    "in_proj": (SQUARE, weights.to_in_proj, weights.from_in_proj),
    "in_proj, kdim and vdim": (CROSS, weights.to_in_proj, weights.from_in_proj),
    "GPT-2": (W, weights.to_gpt2, lambda params: weights.from_gpt2(*params)),
    "interleaved": (W, lambda W: weights.to_interleaved(W, HEADS),
                    lambda params: weights.from_interleaved(params, HEADS)),
    "Dense": (W, weights.to_dense, weights.from_dense),
    "Dense, wide v": (WIDE_V, weights.to_dense, weights.from_dense),
    "Keras": (W, *KERAS),
    "Keras, wide v": (WIDE_V, *KERAS),
    "JAX": (W, lambda W: weights.to_jax(W, HEADS), weights.from_jax),
    "JAX, wide v": (WIDE_V, lambda W: weights.to_jax(W, HEADS), weights.from_jax),
}
each_layout = pytest.mark.parametrize(("W", "to", "back"), LAYOUTS.values(), ids=LAYOUTS)


def same(got, expected):
    assert list(got) == list(expected)
    for name, array in expected.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(got[name], array)


def arrays(params):
    """Return the arrays of any layout in a flat list."""
    if isinstance(params, np.ndarray):
        return [params]
    parts = params.values() if isinstance(params, dict) else params
    return [array for part in parts for array in arrays(part)]


def close(got, expected):
    assert tuple(got.shape) == expected.shape
    assert checks.difference(got, expected) <= 1e-12


# --- there and back

@each_layout
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_there_and_back_not_a_bit_is_changed(W, to, back, dtype):
    W = {name: array.astype(dtype) for name, array in W.items()}
    params = to(W)
    assert {array.dtype for array in arrays(params)} == {np.dtype(dtype)}
    assert sum(a.size for a in arrays(params)) == sum(a.size for a in W.values())
    size = len(params)
    same(back(params), W)
    assert len(params) == size


@each_layout
def test_what_is_returned_shares_no_memory_with_what_was_given(W, to, back):
    params = to(W)
    returned = back(params)
    for array in (*arrays(params), *arrays(returned)):
        assert array.flags.writeable
        assert array.flags.c_contiguous
    for given, got in ((W, params), (params, returned)):
        assert not any(np.shares_memory(a, b) for a in arrays(given) for b in arrays(got))


def test_a_missing_bias_comes_back_as_zeros_of_the_same_dtype():
    expected = {name: array.astype(np.float32)
                for name, array in sizes.weights(d_in=12, d_out=12, bias=False).items()}
    kernels = {name: array for name, array in expected.items() if name.startswith("W")}
    for to, back in ((weights.to_in_proj, weights.from_in_proj),
                     (weights.to_qkv_module, weights.from_qkv_module), LINEAR["einsum"]):
        params = {k: a for k, a in to(kernels).items() if "bias" not in k}
        same(back(params), expected)
    same(weights.from_dense(weights.to_dense(kernels)[::2]), expected)
    same(weights.from_keras(weights.to_keras(kernels, HEADS)[::2]), expected)
    same(weights.from_gpt2(*({"w": part["w"]} for part in weights.to_gpt2(kernels))), expected)
    cross = {name: CROSS[name] for name in kernels}
    params = weights.to_in_proj(cross)
    del params["in_proj_bias"], params["out_proj.bias"]
    same(weights.from_in_proj(params), cross | {f"b_{n}": np.zeros(12) for n in "qkvo"} | cross)


def test_some_biases_may_be_missing():
    layer = SequenceFirst(HEADS, 12, bias=False)  # neither q nor k has one; v and output do
    W = SQUARE | {"b_q": np.zeros(12), "b_k": np.zeros(12)}
    weights.load(layer.double(), weights.to_linear(W, SEQUENCE_FIRST))
    same(weights.from_linear(layer.state_dict(), SEQUENCE_FIRST), W)


# --- where each number goes

def test_pytorch_has_outputs_first_and_the_others_inputs_first():
    linear, dense = weights.to_linear(W, EINSUM), weights.to_dense(W)
    assert linear["w_ks.weight"][5, 2] == dense[2][2, 5] == W["W_k"][2, 5]
    assert linear["w_ks.bias"][5] == dense[3][5] == W["b_k"][5]
    assert list(linear) == ["w_qs.weight", "w_qs.bias", "w_ks.weight", "w_ks.bias",
                            "w_vs.weight", "w_vs.bias", "fc.weight", "fc.bias"]


def test_packed_layouts_hold_q_then_k_then_v():
    packed = np.concatenate([W["W_q"], W["W_k"], W["W_v"]], axis=1)
    biases = np.concatenate([W["b_q"], W["b_k"], W["b_v"]])
    (c_attn, c_proj), module = weights.to_gpt2(W), weights.to_qkv_module(W)
    same(c_attn, {"w": packed, "b": biases})
    same(c_proj, {"w": W["W_o"], "b": W["b_o"]})
    same(module, {"W_qkv.weight": packed.T, "W_qkv.bias": biases,
                  "W_o.weight": W["W_o"].T, "W_o.bias": W["b_o"]})


@pytest.mark.parametrize(("n_heads", "d_head"), [(2, 6), (3, 4), (6, 2)])
def test_interleaved_holds_q_k_and_v_of_head_0_then_of_head_1(n_heads, d_head):
    # With three heads (3, h, d) and (h, 3, d) are told apart by nothing but who reads which.
    params = weights.to_interleaved(W, n_heads)
    assert params["query_key_value.weight"].shape == (36, 11)
    rows = iter(zip(params["query_key_value.weight"], params["query_key_value.bias"], strict=True))
    for h in range(n_heads):
        for name in "qkv":
            for column in range(h * d_head, (h + 1) * d_head):
                row, bias = next(rows)
                assert np.array_equal(row, W[f"W_{name}"][:, column])
                assert bias == W[f"b_{name}"][column]
    same(weights.to_interleaved(W, 1), {
        new: weights.to_qkv_module(W)[old] for new, old in zip(
            params, weights.to_qkv_module(W), strict=True)})
    same(weights.from_interleaved(params, n_heads), W)


def test_keras_has_an_axis_for_the_heads():
    names = ("W_q", "b_q", "W_k", "b_k", "W_v", "b_v")
    *qkv, kernel, bias = weights.to_keras(WIDE_V, HEADS)
    for name, array, d_head in zip(names, qkv, (4, 4, 4, 4, 8, 8), strict=True):
        for h in range(HEADS):
            stripe = slice(h * d_head, (h + 1) * d_head)
            assert np.array_equal(array[..., h, :], WIDE_V[name][..., stripe])
    assert all(np.array_equal(kernel[h], WIDE_V["W_o"][8 * h:8 * (h + 1)]) for h in range(HEADS))
    assert np.array_equal(bias, WIDE_V["b_o"])


def test_jax_has_the_same_arrays_under_our_names():
    params = weights.to_jax(WIDE_V, HEADS)
    assert list(params) == ["W_q", "b_q", "W_k", "b_k", "W_v", "b_v", "W_o", "b_o"]
    for ours, theirs in zip(params.values(), weights.to_keras(WIDE_V, HEADS), strict=True):
        assert np.array_equal(ours, theirs)


def test_a_dict_of_jax_without_a_parameter_is_refused():
    params = weights.to_jax(W, HEADS)
    del params["b_k"]
    with raises(ValueError, "expected W_q, b_q, W_k, b_k, W_v, b_v, W_o, b_o, got W_q, b_q, W_k, "
                            "W_v, b_v, W_o, b_o; b_k is missing"):
        weights.from_jax(params)


# --- the same attention, and its gradients, in every program

KEEP = masks.padding([7, 4], 7)


def attend(program, params, call, d_in, d_out, W=SQUARE):
    """Check a torch program's output, and return its weights' gradients and the expected ones."""
    weights.load(program.double(), params)
    x, memory = sizes.sides(d_in=d_in)
    grad_out = np.random.default_rng(1).standard_normal((2, 5, d_out))
    out = call(program, torch.as_tensor(x), torch.as_tensor(memory))
    close(out, reference.multi_head_attention(x, memory, W, HEADS, KEEP)[0])
    out.backward(torch.as_tensor(grad_out))
    expected = reference.multi_head_attention_gradient(x, memory, W, HEADS, grad_out, KEEP)
    gradients = {name: p.grad for name, p in program.named_parameters()}
    return gradients, {name: expected[name] for name in W}


def all_close(got, expected):
    assert list(got) == list(expected)
    for name, gradient in expected.items():
        close(got[name], gradient)


def test_our_module():
    module = MultiHeadAttention(12, HEADS, d_in=11, d_out=13)
    gradients, expected = attend(module, weights.to_qkv_module(W),
                                 lambda m, x, memory: m(x, memory, KEEP), 11, 13, W)
    all_close(weights.from_qkv_module(gradients), expected)


def test_nn_multihead_attention():
    module = nn.MultiheadAttention(12, HEADS, batch_first=True)
    gradients, expected = attend(
        module, weights.to_in_proj(SQUARE), lambda m, x, memory: m(
            x, memory, memory, attn_mask=masks.to_torch_mha(
                np.broadcast_to(KEEP, (2, 1, 5, 7)), HEADS))[0], 12, 12)
    all_close(weights.from_in_proj(gradients), expected)


def test_nn_multihead_attention_with_keys_and_values_of_other_widths():
    module = nn.MultiheadAttention(12, HEADS, kdim=10, vdim=9, batch_first=True).double()
    weights.load(module, weights.to_in_proj(CROSS))
    x, keys, values = (sizes.sides(width, d_in=width)[width != 12] for width in (12, 10, 9))
    out, _ = module(*map(torch.as_tensor, (x, keys, values)))
    sides = {"q": x, "k": keys, "v": values}
    heads = [reference.split_heads(side @ CROSS[f"W_{n}"] + CROSS[f"b_{n}"], HEADS)
             for n, side in sides.items()]
    context = reference.merge_heads(reference.attention(*heads)[0])
    close(out, context @ CROSS["W_o"] + CROSS["b_o"])


def test_the_einsum_program():
    module = MultiHeadAttentionNew(HEADS, 12, 4, 4, residual=False, layer_norm=False).eval()
    gradients, expected = attend(
        module, weights.to_linear(SQUARE, EINSUM),
        lambda m, x, memory: m(x, memory, memory, ~np.broadcast_to(KEEP[:, 0], (2, 5, 7)))[0],
        12, 12)
    all_close(weights.from_linear(gradients, EINSUM), expected)


def test_the_sequence_first_program():
    module = SequenceFirst(HEADS, 12).eval()
    gradients, expected = attend(
        module, weights.to_linear(SQUARE, SEQUENCE_FIRST),
        lambda m, x, memory: m(
            query=x.transpose(0, 1), key=memory.transpose(0, 1), value=memory.transpose(0, 1),
            mask=np.moveaxis(KEEP[:, 0], 0, -1).copy()).transpose(0, 1), 12, 12)
    all_close(weights.from_linear(gradients, SEQUENCE_FIRST), expected)


def test_the_numpy_program_takes_what_to_gpt2_gives():
    x = sizes.sides()[1]
    close(numpy_attention.mha(x, *weights.to_gpt2(W), HEADS),
          reference.multi_head_attention(x, x, W, HEADS)[0])


# --- wrong layouts

def without_bias(params):
    return {name: array for name, array in params.items() if not name.endswith("bias")}


def test_conv1d_arrays_under_the_names_of_in_proj_are_refused():
    c_attn, c_proj = weights.to_gpt2(SQUARE)
    params = {"in_proj_weight": c_attn["w"], "in_proj_bias": c_attn["b"],
              "out_proj.weight": c_proj["w"], "out_proj.bias": c_proj["b"]}
    wrong = "which do not fit together; they fit as (in, out)"
    with raises(ValueError, "kernels must be (out, in), got in_proj_weight (12, 36), in_proj_bias "
                            f"(36,), out_proj.weight (12, 12), out_proj.bias (12,), {wrong}"):
        weights.from_in_proj(params)
    with raises(ValueError, "kernels must be (out, in), got in_proj_weight (12, 36), "
                            f"out_proj.weight (12, 12), {wrong}"):
        weights.from_in_proj(without_bias(params))


def test_out_in_where_in_out_is_wanted_is_refused():
    c_attn, c_proj = ({"w": part["w"].T} for part in weights.to_gpt2(W))
    with raises(ValueError, "kernels must be (in, out), got c_attn w (36, 11), c_proj w (13, "
                            "12), which do not fit together; they fit as (out, in)"):
        weights.from_gpt2(c_attn, c_proj)


def test_in_out_where_out_in_is_wanted_is_refused_with_and_without_biases():
    params = {name: array.T for name, array in weights.to_linear(W, EINSUM).items()}
    wrong = "which do not fit together; they fit as (in, out)"
    with raises(ValueError, "kernels must be (out, in), got w_qs.weight (11, 12), w_ks.weight "
                            f"(11, 12), w_vs.weight (11, 12), fc.weight (12, 13), {wrong}"):
        weights.from_linear(without_bias(params), EINSUM)
    with pytest.raises(ValueError, match=r"they fit as \(in, out\)$"):
        weights.from_linear(params, EINSUM)


@pytest.mark.parametrize(("name", "shape"), [
    ("W_qkv.weight", (35, 11)), ("W_qkv.weight", (3, 12, 11)), ("W_qkv.weight", (36,)),
    ("W_qkv.bias", (35,)),
    ("W_o.weight", (13, 11)), ("W_o.bias", (12,))])
def test_arrays_that_do_not_fit_each_other_are_refused(name, shape):
    params = weights.to_qkv_module(W) | {name: np.ones(shape)}
    listed = ", ".join(f"{name} {array.shape}" for name, array in params.items())
    with raises(ValueError, f"kernels must be (out, in), got {listed}, which do not fit together"):
        weights.from_qkv_module(params)


def test_q_and_k_of_different_width_are_refused():
    with pytest.raises(ValueError, match=r"got W_q \(11, 12\), W_k \(11, 8\), .*do not fit"):
        weights.to_linear({n: w for n, w in W.items() if n[0] == "W"} | {"W_k": W["W_k"][:, :8]},
                          EINSUM)


TAKEN_FOR_ANOTHER = {
    "from_qkv_module": lambda: (weights.from_in_proj, weights.to_qkv_module(W)),
    "from_in_proj": lambda: (weights.from_qkv_module, weights.to_in_proj(SQUARE)),
    "from_in_proj ": lambda: (LINEAR["einsum"][1], weights.to_in_proj(CROSS)),
    "from_interleaved": lambda: (LINEAR["einsum"][1], weights.to_interleaved(W, 3)),
    "from_linear, NAMES['sequence_first']":
        lambda: (LINEAR["einsum"][1], LINEAR["sequence_first"][0](W)),
    "every to_… function": lambda: (weights.from_in_proj, W),
    "from_qkv_module ": lambda: (weights.to_dense, weights.to_qkv_module(W)),
}


@pytest.mark.parametrize("reader", TAKEN_FOR_ANOTHER)
def test_names_of_another_layout_are_refused_and_recognised(reader):
    read, params = TAKEN_FOR_ANOTHER[reader]()
    with pytest.raises(ValueError, match=r"^expected ") as caught:
        read(params)
    expected, got = str(caught.value).split(", got ")
    assert got == f"{', '.join(params)}; to read those, use {reader.strip()}"
    assert not set(params) & set(expected.split(", "))


@pytest.mark.parametrize(("read", "written", "other"), [
    ("llama", "bart", "out_proj"), ("bart", "llama", "o_proj"), ("einsum", "bart", "out_proj")])
def test_q_proj_is_recognised_together_with_the_name_of_the_output(read, written, other):
    params = LINEAR[written][0](W)
    with raises(ValueError, f"expected {', '.join(LINEAR[read][0](W))}, got {', '.join(params)}; "
                            f"to read those, use from_linear, NAMES[{written!r}]"):
        LINEAR[read][1](params)
    assert f"{other}.weight" in params


def zeros(**shapes):
    """Return {name.weight: zeros}; __ in a name stands for a dot."""
    return {f"{name.replace('__', '.')}.weight": np.zeros(s) for name, s in shapes.items()}


# As in a Llama with six heads of q and two of k and v: transposed, the shapes would fit.
LLAMA = zeros(q_proj=(24, 24), k_proj=(8, 24), v_proj=(8, 24), o_proj=(24, 24))
TOLD = ("; k_proj.weight has 8 outputs and q_proj.weight has 24: 3 heads of q share each head of k "
        "and v, so read them by shared_heads.to_weight_set, which repeats the heads of k and v, or "
        "by to_grouped")


def test_shared_heads_are_recognised_by_their_shapes():
    with raises(ValueError, "kernels must be (out, in), got q_proj.weight (24, 24), k_proj.weight "
                            "(8, 24), v_proj.weight (8, 24), o_proj.weight (24, 24), which do not "
                            f"fit together{TOLD}"):
        weights.from_linear(LLAMA, weights.NAMES["llama"])
    for reader in (weights.from_in_proj, weights.from_qkv_module, weights.to_dense):
        with pytest.raises(ValueError, match=r"q_proj.weight, k_proj.weight, v_proj.weight, "
                           r"o_proj.weight; to read those, use shared_heads.to_weight_set, because "
                           r"k and v have fewer heads than q$"):
            reader(LLAMA)


FUSED = "name them qkv_proj and o_proj, and use shared_heads.from_fused"
SHARED = {
    "read them by shared_heads.from_grouped":
        lambda: weights.from_qkv_module(zeros(W_qkv=(40, 24), W_o=(24, 24))),
    f"{FUSED} with by_group=True":
        lambda: weights.from_interleaved(zeros(query_key_value=(40, 24), dense=(24, 24)), 6),
    f"transpose them, {FUSED}":
        lambda: weights.from_gpt2({"w": np.zeros((24, 40))}, {"w": np.zeros((24, 24))}),
    "transpose them, name them q_proj, k_proj, v_proj, o_proj, and use shared_heads.to_weight_set":
        lambda: weights.from_dense([np.zeros((24, n)) for n in (24, 8, 8, 24)])}


@pytest.mark.parametrize("where", SHARED)
def test_shared_heads_in_another_layout_are_told_where_to_go(where):
    with pytest.raises(ValueError, match=r"which do not fit together; .*: 3 heads of q share each "
                                         rf"head of k and v, so {where}$"):
        SHARED[where]()


@pytest.mark.parametrize("widths", [(24, 8, 12), (24, 24, 8), (8, 24, 24), (24, 10, 10)])
def test_other_widths_are_not_taken_for_shared_heads(widths):
    shapes = dict(zip(("q_proj", "k_proj", "v_proj"), ((w, 23) for w in widths), strict=True))
    with pytest.raises(ValueError, match=r"which do not fit together$"):
        weights.from_linear(zeros(**shapes, o_proj=(24, 24)), weights.NAMES["llama"])


@pytest.mark.parametrize(("n_layers", "told"), [
    (1, "the prefix 'layers.0.'"), (4, "4 prefixes, the first is 'layers.0.'")])
def test_the_state_dict_of_a_whole_model_is_recognised(n_layers, told):
    names, layer = weights.NAMES["bert"], LINEAR["bert"][0](W)
    model = {f"layers.{n}.{name}": w for n in range(n_layers) for name, w in layer.items()}
    count = ", … (32 names)" if n_layers > 1 else ""
    with pytest.raises(ValueError, match=r", got layers.0.attention.*") as caught:
        weights.from_linear(model, names)
    assert str(caught.value).endswith(f"{count}; these names follow {told}: pass the parameters of "
                                      "one layer, without its prefix")
    same(weights.from_linear(model, [f"layers.0.{name}" for name in names]), W)


def test_keys_of_hugging_face_s_gpt2_are_recognised():
    parts = [{"weight": part["w"], "bias": part["b"]} for part in weights.to_gpt2(W)]
    with pytest.raises(ValueError, match="use from_gpt2 with the keys w and b in place of weight"):
        weights.from_gpt2(*parts)


def test_names_of_no_layout_are_refused():
    params = weights.to_qkv_module(W)
    del params["W_o.weight"]
    names = "W_qkv.weight, W_qkv.bias, W_o.weight, W_o.bias"
    with raises(ValueError, f"expected {names}, got W_o.bias"):
        weights.from_qkv_module({"W_o.bias": params["W_o.bias"]})
    extra = {"W_qkv.scale": W["b_q"]}
    with pytest.raises(ValueError, match=r"; there is no place for W_qkv.scale$"):
        weights.from_qkv_module(weights.to_qkv_module(W) | extra)


def test_lists_and_dicts_are_not_confused():
    with raises(ValueError, "expected W_qkv.weight, W_qkv.bias, W_o.weight, W_o.bias, got 8 "
                            "arrays without names; to read a list, use from_dense or from_keras"):
        weights.from_qkv_module(weights.to_dense(W))


def test_dense_kernels_and_keras_kernels_are_not_confused():
    with raises(ValueError, "query kernel must have 2 axes, got (11, 3, 4); to read "
                            "keras.layers.MultiHeadAttention, use from_keras"):
        weights.from_dense(weights.to_keras(W, HEADS))
    with raises(ValueError, "query kernel must have 3 axes, got (11, 12); to read Keras "
                            "Dense layers, use from_dense"):
        weights.from_keras(weights.to_dense(W)[::2])
    with raises(ValueError, "expected eight arrays, or four without biases, got 7"):
        weights.from_dense(weights.to_dense(W)[:7])


@pytest.mark.parametrize("step", [1, 2])
def test_keras_kernels_with_the_heads_first_are_refused(step):
    params = [np.moveaxis(array, 0, -1) if array.ndim == 3 and array.shape[0] == 11 else array
              for array in weights.to_keras(W, HEADS)][::step]
    with raises(ValueError, "query kernel must be (…, h, d) and output kernel (h, d, d_out) "
                            "with the same h, got (3, 4, 11) and (3, 4, 13); it may be (h, d, "
                            "d_in)"):
        weights.from_keras(params)


def test_a_keras_kernel_of_other_heads_is_refused():
    params = weights.to_keras(W, HEADS)
    with raises(ValueError, "value kernel must be (…, h, d) and output kernel (h, d, d_out) "
                            "with the same h, got (11, 6, 2) and (3, 4, 13)"):
        weights.from_keras([*params[:4], params[4].reshape(11, 6, 2), *params[5:]])


def test_only_arrays_of_one_shape_can_be_packed():
    with raises(ValueError, "W_q, W_k and W_v must have one shape to be packed, got (11, 12), "
                            "(11, 12) and (11, 24)"):
        weights.to_gpt2(WIDE_V)


def test_heads_that_do_not_divide_are_refused():
    wrong = ("d_model=12 is not divisible by n_heads=5 (remainder 2); nearest divisors: 2, 3, "
             "4, 6")
    for call in (lambda: weights.to_interleaved(W, 5), lambda: weights.to_keras(W, 5),
                 lambda: weights.from_interleaved(weights.to_interleaved(W, 3), 5)):
        with raises(ValueError, wrong):
            call()
    narrow_v = WIDE_V | {"W_v": W["W_v"][:, :11], "b_v": W["b_v"][:11], "W_o": W["W_o"][:11]}
    with raises(ValueError, "d_model=11 is not divisible by n_heads=3 (remainder 2); nearest "
                            "divisors: 1, 11"):
        weights.to_keras(narrow_v, HEADS)


@pytest.mark.parametrize(("weights_", "name", "shape"), [
    (W, "W_q", (11, 12)), (SQUARE | {"W_o": W["W_o"], "b_o": W["b_o"]}, "W_o", (12, 13))])
def test_what_nn_multihead_attention_cannot_hold_is_refused(weights_, name, shape):
    with raises(ValueError, f"{name} must be (12, 12) for nn.MultiheadAttention with embed_dim=12, "
                            f"got {shape}"):
        weights.to_in_proj(weights_)


# --- load

@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_load_keeps_the_dtype_of_the_module_and_returns_it(dtype):
    module = MultiHeadAttention(12, HEADS, d_in=11, d_out=13).to(dtype)
    before = dict(module.named_parameters())
    assert weights.load(module, weights.to_qkv_module(W)) is module
    for name, array in weights.to_qkv_module(W).items():
        parameter = module.get_parameter(name)
        assert parameter is before[name]
        assert torch.equal(parameter, torch.as_tensor(array).to(dtype))


def test_what_is_loaded_is_a_copy():
    params = weights.to_qkv_module(W)
    module = weights.load(MultiHeadAttention(12, HEADS, d_in=11, d_out=13).double(), params)
    module.W_o.bias.data.zero_()
    assert np.array_equal(params["W_o.bias"], W["b_o"])


def test_load_leaves_out_biases_of_zero_only():
    W_0 = sizes.weights(bias=False)
    module = MultiHeadAttention(12, HEADS, d_in=11, d_out=13, bias=False).double()
    weights.load(module, weights.to_qkv_module(W_0))
    same(weights.from_qkv_module(module.state_dict()), W_0)
    with pytest.raises(ValueError, match=r"^MultiHeadAttention has parameters .*, got .*W_o.bias"):
        weights.load(module, weights.to_qkv_module(W))


def test_load_names_both_sides_when_they_differ():
    module = MultiHeadAttention(12, HEADS)
    own = ("{'W_qkv.weight': (36, 12), 'W_qkv.bias': (36,), "
           "'W_o.weight': (12, 12), 'W_o.bias': (12,)}")
    differ = "; the shape differs in W_qkv.weight, W_o.weight, W_o.bias"
    for params, hint in ((weights.to_in_proj(SQUARE), ""), (weights.to_qkv_module(W), differ)):
        shapes = {name: array.shape for name, array in params.items()}
        with raises(ValueError, f"MultiHeadAttention has parameters {own}, got {shapes}{hint}"):
            weights.load(module, params)
    params = weights.to_qkv_module(SQUARE)
    del params["W_o.bias"]
    with pytest.raises(ValueError, match=r"^MultiHeadAttention has parameters"):
        weights.load(module, params)


def test_a_module_with_a_layer_norm():
    module = MultiHeadAttentionNew(HEADS, 12, 4, 8)
    W = sizes.weights(d_in=12, d_model=24, d_out=12)
    W |= {name: W[name][..., :12] for name in ("W_q", "W_k", "b_q", "b_k")}
    state = {name: p.detach().numpy() for name, p in module.state_dict().items()}
    weights.load(module.double(), state | weights.to_linear(W, EINSUM))
    same(weights.from_linear(module.state_dict(), EINSUM), W)
    with pytest.raises(ValueError, match=r"AttentionNew has parameters .*layer_norm.weight"):
        weights.load(module, weights.to_linear(W, EINSUM))


# --- TensorFlow; last, since its import takes longer than all the rest

@pytest.fixture(scope="module")
def keras():
    frameworks.tensorflow()
    import keras
    return keras


def tape(call, layer, W, d_in, d_out):
    """Check a layer's output; return its weights' gradients and the expected ones."""
    tf = frameworks.tensorflow()
    x, memory = sizes.sides(d_in=d_in)
    grad_out = np.random.default_rng(1).standard_normal((2, 5, d_out))
    with tf.GradientTape() as watched:
        out = call(tf.constant(x), tf.constant(memory))
    close(out.numpy(), reference.multi_head_attention(x, memory, W, HEADS, KEEP)[0])
    expected = reference.multi_head_attention_gradient(x, memory, W, HEADS, grad_out, KEEP)
    gradients = watched.gradient(out, layer.trainable_variables, tf.constant(grad_out))
    return gradients, {name: expected[name] for name in W}


def test_the_keras_layer(keras):
    layer = keras.layers.MultiHeadAttention(HEADS, 4, output_shape=13, dtype="float64")
    params = weights.to_keras(W, HEADS)
    with raises(ValueError, "MultiHeadAttention has no parameters before it is built: call it "
                            "or its build() once"):
        weights.load(layer, params)
    layer.build((2, 5, 11), (2, 7, 11))
    assert weights.load(layer, params) is layer
    mask = masks.to_keras(KEEP, 2, 5)
    gradients, expected = tape(lambda x, memory: layer(x, memory, attention_mask=mask),
                               layer, W, 11, 13)
    all_close(weights.from_keras(gradients), expected)
    same(weights.from_keras(layer.get_weights()), W)


@pytest.mark.parametrize("bias", [True, False])
def test_the_layer_of_four_dense_layers(keras, bias):
    from utils.attention import tensorflow as tf_attention
    W = sizes.weights(d_out=12, bias=bias)
    layer = tf_attention.MultiHeadAttention(11, 11, 11, 12, HEADS, 0.0, bias, dtype="float64")
    weights.load(layer, weights.to_dense(W))
    gradients, expected = tape(lambda x, memory: layer(x, memory, memory, np.array([7, 4])),
                               layer, W, 11, 12)
    names = [name for name in expected if bias or name[0] == "W"]
    got = weights.from_dense(gradients)
    all_close({name: got[name] for name in names}, {name: expected[name] for name in names})
    same(weights.from_dense(layer.get_weights()), W)
    with pytest.raises(ValueError, match=r"^MultiHeadAttention has parameters \[\(11, 12\), "):
        weights.load(layer, weights.to_keras(W, HEADS))


def test_load_keeps_the_dtype_of_a_layer(keras):
    layer = keras.layers.MultiHeadAttention(HEADS, 4, output_shape=13, use_bias=False)
    layer.build((2, 5, 11), (2, 7, 11))
    with pytest.raises(ValueError, match=r"^MultiHeadAttention has parameters "):
        weights.load(layer, weights.to_keras(W, HEADS))
    W_0 = sizes.weights(bias=False)
    weights.load(layer, weights.to_keras(W_0, HEADS))
    same(weights.from_keras(layer.get_weights()),
         {name: array.astype(np.float32) for name, array in W_0.items()})
