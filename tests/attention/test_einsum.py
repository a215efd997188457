"""The einsum module against the reference: outputs, gradients, masks, its two named extras."""

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st

from utils import checks, masks, reference, sizes
from utils.attention.einsum import MultiHeadAttentionNew
from utils.models import norms

HEADS, D_MODEL, D_K, D_V = 3, 11, 4, 8  # d_model is neither h * d_k nor h * d_v
LAYERS = {"w_qs": "q", "w_ks": "k", "w_vs": "v", "fc": "o"}
KEEP = masks.padding([7, 3], 7)[:, 0] & masks.causal(5, 7, "bottom_right")  # (b, i, j)
EMPTY = KEEP & (np.arange(5) != 2)[:, None]  # query 2 sees nothing
DTYPES = [torch.float64, torch.float32]
plain = pytest.mark.parametrize("dtype", DTYPES, ids=str)
switches = pytest.mark.parametrize(("residual", "layer_norm"),
                                   [(False, False), (True, False), (False, True), (True, True)])
each_mask = pytest.mark.parametrize("keep", [None, KEEP], ids=["all", "keep"])


def module(dtype=torch.float64, **extras):
    """Return a module in evaluation, its biases and gains random, so that each matters."""
    torch.manual_seed(0)
    mha = MultiHeadAttentionNew(HEADS, D_MODEL, D_K, D_V, **extras).to(dtype).eval()
    with torch.no_grad():
        for parameter in mha.parameters():
            if parameter.ndim == 1:
                parameter.normal_()
    return mha


def house(mha):
    """Return the module's weights by house names, (in, out), float64."""
    weights = {}
    for layer, letter in LAYERS.items():
        linear = getattr(mha, layer)
        weights[f"W_{letter}"] = reference.float64(linear.weight).T
        weights[f"b_{letter}"] = reference.float64(linear.bias)
    return weights


def sides(dtype=torch.float64, seed=0):
    """Return x (b, i, e) and memory (b, j, e), which ask for a gradient."""
    return [torch.as_tensor(side, dtype=dtype).requires_grad_()
            for side in sizes.sides(seed, d_in=D_MODEL)]


def expected(mha, x, memory, keep, residual, layer_norm):
    """Return (output, weights (b, h, i, j)) of the reference, in float64."""
    keep = keep if keep is None else keep[:, None]
    out, weights = reference.multi_head_attention(x, memory, house(mha), HEADS, keep)
    out = out + reference.float64(x) if residual else out
    if layer_norm:
        out = norms.layer_norm(out, *map(reference.float64, mha.layer_norm.parameters()))
    return out, weights


def drop(keep):
    return None if keep is None else torch.as_tensor(~keep)


@plain
@switches
@each_mask
def test_output_and_attn_equal_the_reference(dtype, residual, layer_norm, keep):
    mha = module(dtype, residual=residual, layer_norm=layer_norm)
    x, memory = sides(dtype)
    output, attn = mha(x, memory, memory, drop(keep))
    out, weights = expected(mha, x, memory, keep, residual, layer_norm)
    assert output.dtype == attn.dtype == dtype
    assert output.shape == (2, 5, 11)
    assert attn.shape == (3, 2, 5, 7)
    tolerance = checks.TOLERANCES[checks.dtype_name(output)]
    assert checks.difference(output, out) <= tolerance
    assert checks.difference(attn, weights.swapaxes(0, 1)) <= tolerance


@plain
@switches
@each_mask
def test_gradients_equal_the_reference(dtype, residual, layer_norm, keep):
    mha = module(dtype, residual=residual, layer_norm=layer_norm)
    x, memory = sides(dtype)
    output, _ = mha(x, memory, memory, drop(keep))
    direction = torch.randn(output.shape, dtype=dtype)
    output.backward(direction)
    # What arrives before LayerNorm, by its own formula in float64; then the reference's gradient.
    summed = torch.as_tensor(expected(mha, x, memory, keep, residual, False)[0]).requires_grad_()
    normed = norms.layer_norm(summed, *(p.detach().double() for p in mha.layer_norm.parameters())
                              ) if layer_norm else summed
    grad_out, = torch.autograd.grad(normed, summed, direction.double())
    grads = reference.multi_head_attention_gradient(
        x, memory, house(mha), HEADS, grad_out, None if keep is None else keep[:, None])
    got = {"x": x.grad, "memory": memory.grad}
    for layer, letter in LAYERS.items():
        got[f"W_{letter}"] = getattr(mha, layer).weight.grad.T
        got[f"b_{letter}"] = getattr(mha, layer).bias.grad
    grads["x"] = grads["x"] + residual * reference.float64(grad_out)
    assert got.keys() == grads.keys()
    for name, gradient in got.items():
        assert checks.difference(gradient, grads[name]) <= checks.TOLERANCES[
            checks.dtype_name(gradient)], name


@given(seed=st.integers(0, 99), n_head=st.integers(1, 4), d_k=st.integers(1, 6),
       d_v=st.integers(1, 6))
def test_any_head_count_and_width_equals_the_reference(seed, n_head, d_k, d_v):
    torch.manual_seed(seed)
    mha = MultiHeadAttentionNew(n_head, D_MODEL, d_k, d_v, residual=False, layer_norm=False)
    mha = mha.double().eval()
    x, memory = sides(seed=seed)
    keep = masks.padding(sizes.lengths(seed), 7)
    output, attn = mha(x, memory, memory, drop(keep[:, 0]))
    out, weights = reference.multi_head_attention(x, memory, house(mha), n_head, keep)
    assert checks.difference(output, out) <= 1e-12
    assert checks.difference(attn, weights.swapaxes(0, 1)) <= 1e-12


def test_keys_and_values_may_come_from_two_places():
    mha = module(residual=False, layer_norm=False)
    x, keys = sides()
    values = torch.randn_like(keys)
    weights = house(mha)
    q, k, _ = reference.project(x, keys, weights, HEADS)
    _, _, v = reference.project(x, values, weights, HEADS)
    context, _ = reference.attention(q, k, v, KEEP[:, None])
    out = reference.merge_heads(context) @ weights["W_o"] + weights["b_o"]
    assert checks.difference(mha(x, keys, values, drop(KEEP))[0], out) <= 1e-12


@pytest.mark.parametrize("shape", [(7,), (5, 1), (5, 7), (1, 5, 7), (2, 1, 7), (2, 5, 7)], ids=str)
@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "tensor"])
def test_masks_of_every_shape_that_broadcasts(shape, make):
    keep = np.random.default_rng(3).random(shape) < 0.7
    mha, (x, memory) = module(), sides()
    output, attn = mha(x, memory, memory, make(~keep))
    full = np.broadcast_to(keep, (2, 5, 7))
    out, weights = expected(mha, x, memory, full, True, True)
    assert checks.difference(output, out) <= 1e-12
    assert checks.difference(attn, weights.swapaxes(0, 1)) <= 1e-12
    assert (attn[:, torch.as_tensor(~full)] == 0).all()


def test_an_empty_row_gives_a_context_of_zeros():
    mha, (x, memory) = module(), sides()
    bare = module(residual=False, layer_norm=False)
    assert checks.difference(bare(x, memory, memory, drop(EMPTY))[0][:, 2],
                             bare.fc.bias.expand(2, -1)) == 0
    output, attn = mha(x, memory, memory, drop(EMPTY))
    assert not attn[:, :, 2].any()
    assert attn[:, :, [0, 1, 3, 4]].any(dim=-1).all()
    assert checks.difference(output, expected(mha, x, memory, EMPTY, True, True)[0]) <= 1e-12


@switches
def test_an_empty_row_sends_nothing_back_through_attention(residual, layer_norm):
    mha = module(residual=residual, layer_norm=layer_norm)
    x, memory = sides()
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        output, _ = mha(x, memory, memory, drop(EMPTY))
        only_empty = torch.zeros_like(output)
        only_empty[:, 2] = torch.randn(2, D_MODEL, dtype=torch.float64)
        output.backward(only_empty)
    assert not memory.grad.any()
    assert x.grad[:, 2].any() == residual
    for layer in (mha.w_qs, mha.w_ks, mha.w_vs):
        assert not layer.weight.grad.any()
    assert not mha.fc.weight.grad.any()
    assert mha.fc.bias.grad.any()


@pytest.mark.parametrize("value", [1e6, -1e6])
def test_what_padding_holds_changes_nothing_that_is_kept(value):
    mha, (x, memory) = module(), sides()
    hidden = memory.detach().clone()
    hidden[1, 3:] = value
    mask = drop(masks.padding([7, 3], 7)[:, 0])
    assert torch.equal(mha(x, hidden, hidden, mask)[0], mha(x, memory, memory, mask)[0])


def test_true_means_drop():
    mha, (x, memory) = module(), sides()
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[:, 4] = False
    attn = mha(x, memory, memory, mask)[1]
    assert torch.equal(attn, (~mask).double().expand(3, 2, 5, 7))


# --- dropout, initialisation, names

def test_dropout_acts_on_the_output_of_fc_in_training_only():
    mha = module(dropout=0.4, residual=False, layer_norm=False)
    x, memory = sides()
    quiet, attn = mha(x, memory, memory)
    mha.train()
    torch.manual_seed(1)
    loud, same = mha(x, memory, memory)
    dropped = loud == 0
    assert torch.equal(same, attn)  # the weights are left alone
    assert 0.2 < dropped.double().mean() < 0.6
    assert checks.difference(loud[~dropped], quiet[~dropped] / 0.6) <= 1e-12
    mha = module(dropout=0.4, layer_norm=False).train()
    torch.manual_seed(1)
    assert checks.difference(mha(x, memory, memory)[0], loud + x) <= 1e-12  # before the residual


def test_dropout_is_a_tenth_unless_said_otherwise():
    assert MultiHeadAttentionNew(3, 11, 4, 8).dropout.p == 0.1


def test_weights_start_with_the_variance_of_one_heads_matrix():
    torch.manual_seed(0)
    mha = MultiHeadAttentionNew(8, 256, 32, 64)
    for layer, variance in ((mha.w_qs, 2 / (256 + 32)), (mha.w_ks, 2 / (256 + 32)),
                            (mha.w_vs, 2 / (256 + 64)), (mha.fc, 2 / (8 * 64 + 256))):
        assert abs(layer.weight.mean()) < 0.001
        assert abs(layer.weight.var() / variance - 1) < 0.02
        assert layer.weight.max() > 3.5 * variance ** 0.5  # normal; uniform ends at 1.7


def test_parameters_bear_the_names_of_the_source():
    mha = MultiHeadAttentionNew(HEADS, D_MODEL, D_K, D_V)
    shapes = {name: tuple(p.shape) for name, p in mha.state_dict().items()}
    assert shapes == {
        "w_qs.weight": (12, 11), "w_qs.bias": (12,), "w_ks.weight": (12, 11), "w_ks.bias": (12,),
        "w_vs.weight": (24, 11), "w_vs.bias": (24,), "fc.weight": (11, 24), "fc.bias": (11,),
        "layer_norm.weight": (11,), "layer_norm.bias": (11,)}


# --- bad input

def test_bad_sizes_and_masks_are_refused():
    mha, (x, memory) = module(), sides()
    with raises(ValueError, "array 3 must be (b, j, e), got (2, 1, 11): axis j has size 1 "
                            "here, and 7 in an earlier array"):
        mha(x, memory, memory[:, :1])
    with raises(ValueError, "array 2 must be (b, j, e), got (1, 7, 11): axis b has size 1 "
                            "here, and 2 in an earlier array"):
        mha(x, memory[:1], memory[:1])
    with raises(ValueError, "mask (7, 5) does not broadcast to the scores (2, 5, 7): axis j "
                            "has size 7 in the scores, 5 in mask; is it transposed? The axis of "
                            "queries comes before that of keys"):
        mha(x, memory, memory, drop(KEEP[0].T))
    with raises(ValueError, "mask (2, 7) does not broadcast to the scores (2, 5, 7): axis i "
                            "has size 5 in the scores, 2 in mask; if it masks the keys of each "
                            "example, pass mask[:, None]"):
        mha(x, memory, memory, drop(KEEP[:, 0]))
    with raises(ValueError, "mask (3, 2, 5, 7) has more axes than the scores (2, 5, 7)"):
        mha(x, memory, memory, drop(np.stack([KEEP] * 3)))
    with raises(TypeError, "mask must be bool (True = drop), got an int64 mask of 0 and 1; "
                           "most programs would *add* it to the scores, which masks nothing"):
        mha(x, memory, memory, drop(KEEP).long())
    with raises(TypeError, "mask must be bool (True = drop), got a float32 mask of 0 and -inf, "
                           "which is an additive mask; pass ~utils.masks.from_additive(mask)"):
        mha(x, memory, memory, masks.to_additive(KEEP))
