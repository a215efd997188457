"""The PyTorch programs against the reference: values, gradients, masks, dropout, the module."""

import copy

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from utils import checks, masks, reference, sizes
from utils.attention.torch import (
    MultiHeadAttention,
    attention,
    fused_attention,
    masked_softmax,
    packed_projection,
)
from utils.checks.causal import with_causal

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
KEEP = masks.padding([7, 3], 7) & masks.causal(5, 7, "bottom_right")  # (b, 1, i, j)
EMPTY = KEEP & (np.arange(5) != 2)[:, None]                           # query 2 sees nothing
PER_HEAD = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.8
PROGRAMS = {"attention": lambda q, k, v, keep=None: attention(q, k, v, keep)[0],
            "fused": fused_attention}
each_program = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def close(got, expected, tolerance=None):
    """Check shapes, and the difference against the tolerance of got's dtype."""
    assert tuple(got.shape) == tuple(expected.shape)
    tolerance = checks.TOLERANCES[checks.dtype_name(got)] if tolerance is None else tolerance
    assert checks.difference(got, expected) <= tolerance


def tensors(arrays, dtype=torch.float64):
    return [torch.as_tensor(x, dtype=dtype).requires_grad_() for x in arrays]


def grad_out(*shape):
    return np.random.default_rng(1).standard_normal(shape)


# --- attention and fused_attention

@each_program
@each_dtype
@pytest.mark.parametrize("keep", [None, KEEP, EMPTY, PER_HEAD], ids=["all", "keep", "empty", "h"])
def test_context_equals_the_reference_in_every_dtype(program, dtype, keep):
    q, k, v = tensors(sizes.qkv(), dtype)
    context = program(q, k, v, keep)
    assert context.dtype == dtype
    close(context, reference.attention(q, k, v, keep)[0])


@each_dtype
@pytest.mark.parametrize("keep", [None, EMPTY], ids=["all", "empty"])
def test_weights_equal_the_reference_in_every_dtype(dtype, keep):
    q, k, v = tensors(sizes.qkv(), dtype)
    close(attention(q, k, v, keep)[1], reference.attention(q, k, v, keep)[1])


@each_program
@pytest.mark.parametrize("shape", [(), (7,), (5, 1), (5, 7), (1, 5, 7), (2, 1, 1, 7), (1, 3, 5, 7),
                                   (2, 3, 5, 7)], ids=str)
@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "tensor"])
def test_masks_of_every_shape_that_broadcasts(program, shape, make):
    keep = np.random.default_rng(3).random(shape) < 0.7
    q, k, v = sizes.qkv()
    expected, _ = reference.attention(q, k, v, np.broadcast_to(keep, (2, 3, 5, 7)))
    close(program(*tensors((q, k, v)), make(keep)), expected)


@each_program
def test_masks_that_pytorch_would_not_take(program):
    q, k, v = sizes.qkv()
    read_only = np.broadcast_to(KEEP, (2, 3, 5, 7))
    for keep in (read_only, PER_HEAD[..., ::-1], PER_HEAD[0, 0].tolist()):
        expected, _ = reference.attention(q, k, v, np.array(keep))
        close(program(*tensors((q, k, v)), keep), expected)


@each_program
def test_one_head_and_one_example_need_no_axes(program):
    q, k, v = sizes.qkv()
    close(program(*tensors((q[:, 1], k[:, 1], v[:, 1])), KEEP[:, 0]),
          reference.attention(q, k, v, KEEP)[0][:, 1])
    close(program(*tensors((q[1, 1], k[1, 1], v[1, 1])), KEEP[1, 0]),
          reference.attention(q, k, v, KEEP)[0][1, 1])


@each_program
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("keep", [None, EMPTY, PER_HEAD], ids=["all", "empty", "h"])
def test_gradients_equal_the_reference(program, dtype, keep):
    inputs = tensors(sizes.qkv(), dtype)
    direction = torch.as_tensor(grad_out(2, 3, 5, 8), dtype=dtype)
    gradients = torch.autograd.grad(program(*inputs, keep), inputs, direction)
    expected = reference.attention_gradient(*(x.detach().double().numpy() for x in inputs),
                                            direction, keep)
    for got, want in zip(gradients, expected, strict=True):
        close(got, want)


@each_program
@pytest.mark.parametrize("keep", [None, EMPTY], ids=["all", "empty"])
def test_gradcheck(program, keep):
    inputs = tensors(sizes.qkv(batch=1, heads=2, n_q=5, n_k=7, d_head=3, d_v=4))
    keep = keep if keep is None else keep[1:]
    assert torch.autograd.gradcheck(lambda *x: program(*x, keep), inputs)


@pytest.mark.parametrize("keep", [None, EMPTY], ids=["all", "empty"])
def test_gradgradcheck(keep):
    inputs = tensors(sizes.qkv(batch=1, heads=1, n_q=5, n_k=7, d_head=2, d_v=3))
    keep = keep if keep is None else keep[1:]
    assert torch.autograd.gradgradcheck(lambda *x: attention(*x, keep)[0], inputs)


@each_program
@each_dtype
def test_a_query_without_keys_gives_zeros_and_a_zero_gradient(program, dtype):
    q, k, v = inputs = tensors(sizes.qkv(), dtype)
    context = program(q, k, v, EMPTY)
    assert not context[:, :, 2].any()
    assert context[:, :, [0, 1, 3, 4]].any(dim=-1).all()
    gradients = torch.autograd.grad(context, inputs, torch.randn_like(context))
    assert all(x.isfinite().all() for x in gradients)
    assert not gradients[0][:, :, 2].any()
    only_empty = torch.zeros_like(context)
    only_empty[:, :, 2] = 1.0
    for gradient in torch.autograd.grad(program(q, k, v, EMPTY), inputs, only_empty):
        assert not gradient.any()


@each_program
@each_dtype
def test_no_nan_is_met_on_the_way_to_these_gradients(program, dtype):
    inputs = tensors(sizes.qkv(), dtype)
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        context = program(*inputs, EMPTY)
        torch.autograd.grad(context, inputs, torch.randn_like(context))


@each_program
def test_nothing_to_attend_to_at_all_gives_zeros(program):
    context = program(*tensors(sizes.qkv()), np.zeros((5, 7), dtype=bool))
    assert context.shape == (2, 3, 5, 8)
    assert not context.any()


@each_program
@pytest.mark.parametrize("value", [1e6, -1e6])
def test_what_padding_holds_changes_nothing_that_is_kept(program, value):
    q, k, v = tensors(sizes.qkv())
    keep = masks.padding([7, 3], 7)
    hidden = [x.detach().clone() for x in (k, v)]
    for x in hidden:
        x[1, :, 3:] = value
    assert torch.equal(program(q, *hidden, keep), program(q, k, v, keep))


@each_program
@given(seed=st.integers(0, 99))
def test_order_of_keys_does_not_matter_and_order_of_queries_carries_over(program, seed):
    q, k, v = map(torch.as_tensor, sizes.qkv(seed))
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(5), rng.permutation(7)
    moved = program(q[:, :, rows], k[:, :, columns], v[:, :, columns],
                    PER_HEAD[:, :, rows][..., columns])
    close(moved, program(q, k, v, PER_HEAD)[:, :, rows])


@each_program
def test_examples_and_heads_do_not_see_each_other(program):
    inputs = [torch.as_tensor(x) for x in sizes.qkv()]
    others = [x.clone() for x in inputs]
    for x in others:
        x[0], x[:, 1] = 100.0, -100.0
    assert torch.equal(program(*others, PER_HEAD)[1, ::2], program(*inputs, PER_HEAD)[1, ::2])


@each_program
def test_inputs_need_not_be_contiguous(program):
    strided = [torch.as_tensor(np.asfortranarray(x)) for x in sizes.qkv()]
    assert not any(x.is_contiguous() for x in strided)
    close(program(*strided, KEEP), reference.attention(*sizes.qkv(), KEEP)[0])


def test_masked_softmax_of_a_row():
    scores = torch.log(torch.tensor([[1.0, 2.0, 5.0, 7.0], [1.0, 1.0, 1.0, 1.0]]).double())
    keep = torch.tensor([[True, True, True, False], [False, False, False, False]])
    close(masked_softmax(scores, keep), np.array([[0.125, 0.25, 0.625, 0], [0, 0, 0, 0]]))
    close(masked_softmax(scores), np.array([[1, 2, 5, 7], [3.75] * 4]) / 15)


@each_program
def test_q_and_k_of_different_width_are_refused(program):
    q, k, v = tensors(sizes.qkv())
    with raises(ValueError, "q and k must have the same head dimension (last axis): q has 4, k "
                            "has 3"):
        program(q, k[..., :3], v, KEEP)


# --- causal

def test_causal_equals_the_explicit_mask():
    q, k, v = tensors(sizes.qkv(n_q=7))
    explicit = fused_attention(q, k, v, masks.causal(7))
    close(fused_attention(q, k, v, causal=True), explicit)
    close(explicit, reference.attention(q, k, v, masks.causal(7))[0])
    close(fused_attention(q[1, 1], k[1, 1], v[1, 1], causal=True), explicit[1, 1])


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "tensor"])
def test_causal_is_combined_with_a_mask(make):
    q, k, v = tensors(sizes.qkv(n_q=7))
    keep = masks.padding([7, 3], 7) & (np.arange(7) != 0)  # query 0 of each example sees nothing
    both = masks.causal(7) & keep
    assert with_causal(checks.keep(make(keep), q, k), True, q, k).tolist() == both.tolist()
    close(fused_attention(q, k, v, make(keep), causal=True),
          reference.attention(q, k, v, both)[0])


def test_without_causal_the_mask_stays():
    q, k, _ = tensors(sizes.qkv())
    assert with_causal(None, False, q, k) is None
    assert with_causal(KEEP, False, q, k).tolist() == KEEP.tolist()
    assert with_causal(None, True, q, q).tolist() == masks.causal(5).tolist()


@pytest.mark.parametrize("keep", [None, KEEP], ids=["all", "keep"])
def test_causal_with_different_lengths_is_refused(keep):
    with raises(ValueError, "causal=True requires n_q == n_k, got n_q=5 and n_k=7: choose an "
                            "alignment with keep=masks.causal(n_q, n_k, align=...)"):
        fused_attention(*tensors(sizes.qkv()), keep, causal=True)


class Shapes(TorchDispatchMode):
    """Collect the shape of every tensor that any operation, forward or backward, produces."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(x, torch.Tensor):
                self.seen.add(tuple(x.shape))
        return result


@pytest.mark.parametrize("causal", [False, True])
def test_the_fast_path_never_holds_a_matrix_of_queries_by_keys(causal):
    torch.manual_seed(0)
    module, x = MultiHeadAttention(12, 3), torch.randn(2, 97, 12)

    def run(**options):
        with Shapes() as shapes:
            out = module(x, causal=causal, **options)
            (out[0] if options else out).backward(torch.randn(2, 97, 12))
        return {shape for shape in shapes.seen if shape[-2:] == (97, 97)}

    assert run() == set()
    assert (2, 3, 97, 97) in run(return_weights=True)


# --- dropout

def test_dropout_has_the_right_mean():
    torch.manual_seed(0)
    q, k, v = (torch.as_tensor(x).repeat(2000, 1, 1, 1) for x in sizes.qkv(batch=1))
    exact = fused_attention(q[:1], k[:1], v[:1], KEEP[:1])
    dropped = fused_attention(q, k, v, KEEP[:1], dropout=0.3)
    error = dropped.std(dim=0) / 2000 ** 0.5
    assert ((dropped.mean(dim=0) - exact[0]).abs() <= 5 * error).all()
    assert error.min() > 1e-3  # something was dropped indeed


def test_dropout_scales_what_it_keeps():
    torch.manual_seed(0)
    q, k, v = (torch.as_tensor(x) for x in sizes.qkv())
    only = np.broadcast_to(np.arange(7) == 4, (5, 7))  # one key: its weight is 1, or dropped
    context = fused_attention(q, k, v, only, dropout=0.25)
    kept = context.any(dim=-1, keepdim=True)
    close(context, torch.where(kept, v[:, :, 4:5] / 0.75, 0.0))
    assert 0 < kept.sum() < kept.numel()


# --- the module

def loaded(W, **options):
    """Return a float64 module that holds a weight set of ``sizes.weights``."""
    d_in, d_model = W["W_q"].shape
    module = MultiHeadAttention(d_model, 3, d_in=d_in, d_out=W["W_o"].shape[1], **options).double()
    with torch.no_grad():
        packed = np.concatenate([W[f"W_{n}"] for n in "qkv"], axis=1)
        module.W_qkv.weight.copy_(torch.as_tensor(packed.T))
        module.W_o.weight.copy_(torch.as_tensor(W["W_o"].T))
        if options.get("bias", True):
            module.W_qkv.bias.copy_(torch.as_tensor(np.concatenate([W[f"b_{n}"] for n in "qkv"])))
            module.W_o.bias.copy_(torch.as_tensor(W["b_o"]))
    return module


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("keep", [None, KEEP, EMPTY, PER_HEAD], ids=["all", "keep", "empty", "h"])
def test_cross_attention_equals_the_reference(bias, keep):
    W, (x, memory) = sizes.weights(bias=bias), sizes.sides()
    got = loaded(W, bias=bias)(*map(torch.as_tensor, (x, memory)), keep, return_weights=True)
    for a, b in zip(got, reference.multi_head_attention(x, memory, W, 3, keep), strict=True):
        close(a, b)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_equals_the_reference(bias, causal):
    W, (_, x) = sizes.weights(bias=bias), sizes.sides()
    keep = masks.padding([7, 3], 7)
    got = loaded(W, bias=bias)(torch.as_tensor(x), keep=keep, causal=causal, return_weights=True)
    full = keep & masks.causal(7) if causal else keep
    for a, b in zip(got, reference.multi_head_attention(x, x, W, 3, full), strict=True):
        close(a, b)


def test_memory_that_is_x_is_self_attention():
    module, x = loaded(sizes.weights()), torch.as_tensor(sizes.sides()[0])
    close(module(x, x), module(x))


@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_projection_is_three_linears(bias):
    W, (x, memory) = sizes.weights(bias=bias), tensors(sizes.sides())
    linear = loaded(W, bias=bias).W_qkv
    for got, side, name in zip(packed_projection(linear, x, memory), (x, memory, memory), "qkv",
                               strict=True):
        close(got, side.detach().numpy() @ W[f"W_{name}"] + W[f"b_{name}"])
    for got, want in zip(packed_projection(linear, x), packed_projection(linear, x, x),
                         strict=True):
        close(got, want.detach().numpy())


def test_project_gives_q_of_x_and_k_and_v_of_the_memory():
    W, (x, memory) = sizes.weights(), sizes.sides()
    sides = [torch.as_tensor(side) for side in (x, memory)]
    for a, b in zip(loaded(W).project(*sides), reference.project(x, memory, W, 3), strict=True):
        close(a, b)
    for a, b in zip(loaded(W).project(sides[0]), reference.project(x, x, W, 3), strict=True):
        close(a, b)


@pytest.mark.parametrize("keep", [None, EMPTY], ids=["all", "empty"])
def test_gradients_of_the_module_equal_the_reference(keep):
    W, (x, memory) = sizes.weights(), sizes.sides()
    module, inputs = loaded(W), tensors((x, memory))
    direction = grad_out(2, 5, 13)
    module(*inputs, keep).backward(torch.as_tensor(direction))
    expected = reference.multi_head_attention_gradient(x, memory, W, 3, direction, keep)
    close(inputs[0].grad, expected["x"])
    close(inputs[1].grad, expected["memory"])
    close(module.W_o.weight.grad, expected["W_o"].T)
    close(module.W_o.bias.grad, expected["b_o"])
    close(module.W_qkv.weight.grad, np.concatenate([expected[f"W_{n}"] for n in "qkv"], axis=1).T)
    close(module.W_qkv.bias.grad, np.concatenate([expected[f"b_{n}"] for n in "qkv"]))


def test_an_example_without_keys_gives_the_output_bias_and_a_finite_gradient():
    W, (x, memory) = sizes.weights(), sizes.sides()
    module, inputs = loaded(W), tensors((x, memory))
    out = module(*inputs, masks.padding([7, 0], 7))
    close(out[1], np.broadcast_to(W["b_o"], (5, 13)))
    out.backward(torch.as_tensor(grad_out(2, 5, 13)))
    assert all(p.grad.isfinite().all() for p in (*inputs, *module.parameters()))
    assert not inputs[0].grad[1].any()
    assert not inputs[1].grad[1].any()
    assert inputs[1].grad[0].all()


@pytest.mark.parametrize("training", [False, True])
def test_asking_for_weights_changes_no_bit_of_the_output(training):
    x = torch.as_tensor(sizes.sides()[1], dtype=torch.float32)
    module = loaded(sizes.weights(), dropout=0.5).float().train(training)
    for keep in (None, masks.padding([7, 0], 7)):
        torch.manual_seed(1)
        out = module(x, keep=keep)
        torch.manual_seed(1)
        again, weights = module(x, keep=keep, return_weights=True)
        assert torch.equal(out, again)
        close(weights, reference.multi_head_attention(x, x, sizes.weights(), 3, keep)[1])


def test_evaluation_drops_nothing_and_training_does():
    W, x = sizes.weights(), torch.as_tensor(sizes.sides()[1])
    module = loaded(W, dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))
    close(module(x), reference.multi_head_attention(x, x, W, 3)[0])
    assert torch.equal(loaded(W)(x), module(x))


def test_training_with_dropout_has_the_right_mean():
    torch.manual_seed(0)
    W, x = sizes.weights(), torch.as_tensor(sizes.sides(batch=1)[1])
    outs = loaded(W, dropout=0.5)(x.repeat(2000, 1, 1))
    error = outs.std(dim=0) / 2000 ** 0.5
    exact = loaded(W)(x)[0]
    assert ((outs.mean(dim=0) - exact).abs() <= 5 * error).all()
    assert error.min() > 1e-3


def test_training_drops_the_share_of_weights_it_should():
    torch.manual_seed(0)
    x = torch.as_tensor(sizes.sides(batch=1)[1]).repeat(2000, 1, 1)
    only = np.broadcast_to(np.arange(7) == 4, (7, 7))
    out = loaded(sizes.weights(bias=False), dropout=0.6)(x, keep=only)
    dropped = (~out.any(dim=-1)).double().mean()  # in all three heads
    assert abs(dropped - 0.6 ** 3) < 5 * (0.6 ** 3 * (1 - 0.6 ** 3) / 14_000) ** 0.5


def test_the_future_changes_nothing_before_it():
    x = torch.as_tensor(sizes.sides()[1]).requires_grad_()
    module = loaded(sizes.weights())
    jacobian = torch.autograd.functional.jacobian(lambda x: module(x, causal=True), x)
    for b, i, c, j in np.ndindex(2, 7, 2, 7):  # out of b, i by x of c, j
        sees = b == c and j <= i
        assert jacobian[b, i, :, c, j].any() == sees


@pytest.mark.parametrize("bias", [True, False])
def test_number_of_parameters(bias):
    module = MultiHeadAttention(12, 3, d_in=11, d_out=13, bias=bias)
    assert sum(p.numel() for p in module.parameters()) == (
        3 * 11 * 12 + 12 * 13 + bias * (3 * 12 + 13))
    square = MultiHeadAttention(12, 3, bias=bias)
    assert sum(p.numel() for p in square.parameters()) == 4 * 12 * 12 + bias * 4 * 12


def test_state_dict_moves_the_weights():
    module, other = loaded(sizes.weights(0)), loaded(sizes.weights(1))
    x = torch.as_tensor(sizes.sides()[0])
    assert not torch.equal(other(x), module(x))
    assert list(module.state_dict()) == ["W_qkv.weight", "W_qkv.bias", "W_o.weight", "W_o.bias"]
    other.load_state_dict(copy.deepcopy(module.state_dict()))
    assert torch.equal(other(x), module(x))


def test_input_need_not_be_contiguous():
    W, (x, memory) = sizes.weights(), sizes.sides()
    sequence_first = [torch.as_tensor(side).transpose(0, 1).contiguous().transpose(0, 1)
                      for side in (x, memory)]
    expected, _ = reference.multi_head_attention(x, memory, W, 3, KEEP)
    close(loaded(W)(*sequence_first, KEEP), expected)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"keep": masks.padding([7, 3], 7)},
                                     {"keep": masks.padding([7, 3], 7), "causal": True}],
                         ids=["all", "causal", "keep", "both"])
def test_masks_move_to_the_device_of_the_input(options):
    module, x = MultiHeadAttention(12, 3).to("meta"), torch.zeros(2, 7, 12, device="meta")
    out, weights = module(x, return_weights=True, **options)
    assert (out.device.type, weights.device.type) == ("meta", "meta")
    assert (out.shape, weights.shape) == ((2, 7, 12), (2, 3, 7, 7))


def test_heads_that_do_not_divide_are_refused():
    with raises(ValueError, "d_model=10 is not divisible by n_heads=3 (remainder 1); nearest "
                            "divisors: 1, 2, 5, 10"):
        MultiHeadAttention(10, 3)
