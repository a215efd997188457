"""The decoder's programs against the reference: values, gradients, and nothing that looks ahead."""

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st
from torch import nn

from utils import checks, masks, reference, sizes
from utils.attention.decoder import (
    causal_mask,
    masked_multi_head_self_attention,
    multi_head_attention,
)

N, HEADS = sizes.N_K, sizes.HEADS
LENGTHS = [N, 4]
PADDING = masks.padding(LENGTHS, N)                              # (b, 1, 1, j)
EMPTY = PADDING & (np.arange(N) > 1)                             # as if padded on the left as well
PER_HEAD = np.random.default_rng(0).random((2, HEADS, N, N)) < 0.7
KEEPS = {"none": None, "padding": PADDING, "empty": EMPTY, "per head": PER_HEAD}
each_keep = pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
DTYPES = [torch.float64, torch.float32]


def close(got, expected):
    assert tuple(got.shape) == tuple(expected.shape)
    assert checks.difference(got, expected) <= checks.TOLERANCES[checks.dtype_name(got)]


def layers(w, dtype=torch.float64):
    """Return w_q, w_k, w_v, w_o as layers that hold the weight set ``w``."""
    made = nn.ModuleDict()
    for name in "qkvo":
        kernel, bias = (torch.tensor(w[f"{kind}_{name}"], dtype=dtype) for kind in "Wb")
        made[f"w_{name}"] = nn.Linear(*kernel.shape, dtype=dtype)
        made[f"w_{name}"].load_state_dict({"weight": kernel.T, "bias": bias})
    return made


def tensors(*arrays, dtype=torch.float64):
    return [torch.tensor(array, dtype=dtype, requires_grad=True) for array in arrays]


def check_gradients(inputs, made, expected):
    """Compare the gradients of the inputs and of all weights with the reference's."""
    for name, side in inputs.items():
        close(side.grad, expected[name])
    for name, layer in made.items():
        close(layer.weight.grad.T, expected[f"W{name[1:]}"])
        close(layer.bias.grad, expected[f"b{name[1:]}"])


# --- self-attention under the causal mask

@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@each_keep
def test_masked_self_attention_and_its_gradients_equal_the_reference(keep, dtype):
    w, (x,) = sizes.weights(), tensors(sizes.sides()[1], dtype=dtype)
    made = layers(w, dtype)
    out = masked_multi_head_self_attention(x, **made, head=HEADS, mask=keep)
    allowed = masks.causal(N) if keep is None else masks.causal(N) & keep
    close(out, reference.multi_head_attention(x, x, w, HEADS, allowed)[0])
    push = torch.as_tensor(np.random.default_rng(1).standard_normal(out.shape), dtype=dtype)
    out.backward(push)
    expected = reference.multi_head_attention_gradient(x, x, w, HEADS, push, allowed)
    check_gradients({"x": x}, made, expected | {"x": expected["x"] + expected["memory"]})


def test_two_calls_agree_and_train_the_layers_they_were_given():
    made, (x,) = layers(sizes.weights()), tensors(sizes.sides()[1])
    first, second = (masked_multi_head_self_attention(x, **made, head=HEADS) for _ in range(2))
    assert torch.equal(first, second)
    first.square().sum().backward()
    assert all((p.grad != 0).any() for name, p in made.named_parameters())


def test_a_mask_cannot_switch_the_causal_mask_off():
    made, (x,) = layers(sizes.weights()), tensors(sizes.sides()[1])
    close(masked_multi_head_self_attention(x, **made, head=HEADS, mask=np.ones((N, N), bool)),
          masked_multi_head_self_attention(x, **made, head=HEADS).detach())


def test_the_jacobian_is_exactly_zero_above_the_diagonal():
    made, (x,) = layers(sizes.weights()), tensors(sizes.sides()[1])
    jacobian = torch.func.jacrev(
        lambda one: masked_multi_head_self_attention(one[None], **made, head=HEADS)[0])(x[0])
    strength = jacobian.abs().amax(dim=(1, 3))                   # (i, j)
    assert (strength > 0).tolist() == masks.causal(N).tolist()


def test_what_padding_holds_changes_no_bit_that_is_kept():
    made, (x,) = layers(sizes.weights()), tensors(sizes.sides()[1])
    loud = x.detach().clone()
    loud[1, 4:] = 1e6
    out, moved = (masked_multi_head_self_attention(side, **made, head=HEADS, mask=PADDING)
                  for side in (x, loud))
    assert torch.equal(out[0], moved[0])
    assert torch.equal(out[1, :4], moved[1, :4])
    assert not torch.equal(out[1, 4:], moved[1, 4:])


def test_padding_on_the_left_gives_zeros_where_there_is_nothing_to_look_at():
    made, (x,) = layers(sizes.weights()), tensors(sizes.sides()[1])
    words = np.arange(N) >= [[0], [3]]                           # (b, j)
    out = masked_multi_head_self_attention(x, **made, head=HEADS, mask=words[:, None, None])
    assert torch.equal(out[1, :3], made["w_o"].bias.expand(3, -1))
    close(out[1, 3:], masked_multi_head_self_attention(x[1:, 3:], **made, head=HEADS)[0].detach())


# --- any mask, and cross-attention

@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("keep", [None, PADDING, EMPTY[..., ::-1], PER_HEAD[:, :, :5]],
                         ids=["none", "padding", "empty", "per head"])
def test_cross_attention_and_its_gradients_equal_the_reference(keep, dtype):
    w, (x, memory) = sizes.weights(), tensors(*sizes.sides(), dtype=dtype)
    made = layers(w, dtype)
    out = multi_head_attention(x, memory, memory, **made, head=HEADS, mask=keep)
    close(out, reference.multi_head_attention(x, memory, w, HEADS, keep)[0])
    push = torch.as_tensor(np.random.default_rng(1).standard_normal(out.shape), dtype=dtype)
    out.backward(push)
    expected = reference.multi_head_attention_gradient(x, memory, w, HEADS, push, keep)
    check_gradients({"x": x, "memory": memory}, made, expected)


def test_keys_and_values_may_come_from_two_sequences():
    w, (x, memory) = sizes.weights(), tensors(*sizes.sides())
    out = multi_head_attention(x, memory, memory.flip(1), **layers(w), head=HEADS)
    q, k, _ = reference.project(x, memory, w, HEADS)
    _, _, v = reference.project(x, memory.flip(1), w, HEADS)
    context = reference.merge_heads(reference.attention(q, k, v)[0])
    close(out, context @ w["W_o"] + w["b_o"])


@given(st.integers(0, 99), st.integers(1, 3), st.sampled_from([1, 2, 3, 4, 6, 12]),
       st.integers(1, 6), st.floats(0, 1))
def test_any_sizes_and_any_mask_equal_the_reference(seed, batch, heads, n, share):
    x = sizes.sides(seed, batch=batch, n_k=n)[1]
    keep = np.random.default_rng(seed).random((batch, heads, n, n)) < share
    w = sizes.weights(seed)
    program = layers(w)
    out = masked_multi_head_self_attention(torch.tensor(x), **program, head=heads, mask=keep)
    close(out, reference.multi_head_attention(x, x, w, heads, keep & masks.causal(n))[0])
    out = multi_head_attention(*[torch.tensor(x)] * 3, **program, head=heads, mask=keep)
    close(out, reference.multi_head_attention(x, x, w, heads, keep)[0])


def test_causal_mask_is_that_of_masks_whatever_else_the_sequence_is():
    for shape in ((2, N, 11), (1, N), (3, N, 2, 2)):
        mask = causal_mask(torch.zeros(shape))
        assert mask.dtype == torch.bool
        assert mask.tolist() == masks.causal(N).tolist()
    assert causal_mask(torch.zeros(2, N, 11, device="meta")).device.type == "meta"


# --- what is refused

BOTH = {"masked": masked_multi_head_self_attention,
        "any mask": lambda x, **rest: multi_head_attention(x, x, x, **rest)}
each_program = pytest.mark.parametrize("program", BOTH.values(), ids=BOTH)


@each_program
def test_heads_that_do_not_divide_the_features_are_refused(program):
    with raises(ValueError, "d_model=12 is not divisible by n_heads=5 (remainder 2); nearest "
                            "divisors: 2, 3, 4, 6"):
        program(*tensors(sizes.sides()[1]), **layers(sizes.weights()), head=5)


@each_program
@pytest.mark.parametrize(("mask", "error", "message"), [
    (masks.padding([5, 3], 5), ValueError,
     "keep (2, 1, 1, 5) does not broadcast to the scores (2, 3, 7, 7): axis j has size 7 in "
     "the scores, 5 in keep"),
    (np.ones((2, N, N), bool), ValueError,
     "keep (2, 7, 7) is ambiguous for scores (b, h, i, j) = (2, 3, 7, 7): if its first axis is "
     "the examples, pass keep[:, None]; if it is the heads, keep[None]"),
    (np.triu(np.ones((N, N)), k=1), TypeError,
     "keep must be bool (True = may attend), got a float64 mask of 0 and 1; most programs "
     "would *add* it to the scores, which masks nothing"),
], ids=["too short", "three axes", "numbers"])
def test_a_mask_that_does_not_fit_is_refused(program, mask, error, message):
    with raises(error, message):
        program(*tensors(sizes.sides()[1]), **layers(sizes.weights()), head=HEADS, mask=mask)
