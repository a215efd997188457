"""The programs of chapter `per_head_loops`: a loop over heads in PyTorch, and ``mha`` in NumPy."""

import re

import numpy as np
import pytest
import torch

from utils import checks, masks, reference, sizes
from utils.attention.numpy import linear, mha
from utils.attention.torch import attention_per_head

HEADS = sizes.HEADS
LENGTHS = [4, sizes.N_K]


def features(seed=0, dtype=np.float64):
    """Return q (b, i, e), k and v (b, j, e): projected, not yet cut into heads."""
    q, k = sizes.sides(seed, d_in=sizes.D_MODEL)
    _, v = sizes.sides(seed + 1, d_in=sizes.D_MODEL)
    return [side.astype(dtype) for side in (q, k, v)]


def expected_per_head(q, k, v, keep=None):
    """Return what the reference makes of features: context (b, i, e), weights (b, h, i, j)."""
    heads = (reference.split_heads(side, HEADS) for side in (q, k, v))
    context, weights = reference.attention(*heads, keep)
    return reference.merge_heads(context), weights


def packed(weights):
    """Return a weight set of ``sizes.weights`` as GPT-2's two dicts, c_attn and c_proj."""
    c_attn = {name: np.concatenate([weights[f"{full}_{side}"] for side in "qkv"], axis=-1)
              for name, full in (("w", "W"), ("b", "b"))}
    return c_attn, {"w": weights["W_o"], "b": weights["b_o"]}


def close(got, expected, tolerance=1e-12):
    assert got.shape == expected.shape
    assert checks.difference(got, expected) <= tolerance


def keep_per_head():
    """Return a mask (b, h, i, j) that differs between examples, heads and queries, no empty row."""
    keep = np.random.default_rng(5).random((2, HEADS, sizes.N_Q, sizes.N_K)) < 0.6
    keep[..., 0] = True
    return keep


KEEPS = {
    "none": None,
    "padding": masks.padding(LENGTHS, sizes.N_K),                             # (b, 1, 1, j)
    "causal": masks.causal(sizes.N_Q, sizes.N_K, align="bottom_right"),       # (i, j)
    "per head": keep_per_head(),                                              # (b, h, i, j)
    "heads only": keep_per_head()[:1, :, :1],                                 # (1, h, 1, j)
}


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
def test_the_loop_equals_the_reference(keep):
    q, k, v = features()
    context, weights = attention_per_head(*map(torch.tensor, (q, k, v)), HEADS, keep)
    expected, expected_weights = expected_per_head(q, k, v, keep)
    close(context, expected)
    close(weights, expected_weights)


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
def test_the_gradient_of_the_loop_equals_the_reference_gradient(keep):
    q, k, v = features()
    tensors = [torch.tensor(side, requires_grad=True) for side in (q, k, v)]
    grad_out = np.random.default_rng(3).standard_normal(q.shape)
    context, _ = attention_per_head(*tensors, HEADS, keep)
    (context * torch.tensor(grad_out)).sum().backward()
    heads = (reference.split_heads(side, HEADS) for side in (q, k, v, grad_out))
    expected = reference.attention_gradient(*heads, keep)
    for tensor, gradient in zip(tensors, expected, strict=True):
        close(tensor.grad, reference.merge_heads(gradient))


@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 6, 12])
def test_the_loop_equals_the_reference_for_any_number_of_heads(n_heads):
    q, k, v = features(seed=7)
    heads = (reference.split_heads(side, n_heads) for side in (q, k, v))
    expected, expected_weights = reference.attention(*heads, KEEPS["padding"])
    context, weights = attention_per_head(*map(torch.tensor, (q, k, v)), n_heads, KEEPS["padding"])
    close(context, reference.merge_heads(expected))
    close(weights, expected_weights)


def test_the_loop_takes_a_mask_as_array_or_tensor_alike():
    q, k, v = map(torch.tensor, features())
    keep = KEEPS["per head"]
    for got, expected in zip(attention_per_head(q, k, v, HEADS, torch.tensor(keep)),
                             attention_per_head(q, k, v, HEADS, keep), strict=True):
        assert torch.equal(got, expected)


def test_float32_stays_float32_in_the_loop_and_in_mha():
    q, k, v = features(dtype=np.float32)
    context, weights = attention_per_head(*map(torch.tensor, (q, k, v)), HEADS, KEEPS["padding"])
    assert context.dtype == weights.dtype == torch.float32
    close(context, expected_per_head(q, k, v, KEEPS["padding"])[0], 1e-5)
    x, w = sizes.sides()[1], sizes.weights()
    c_attn, c_proj = ({name: array.astype(np.float32) for name, array in part.items()}
                      for part in packed(w))
    keep = masks.decoder(LENGTHS, sizes.N_K)
    out = mha(x.astype(np.float32), c_attn, c_proj, HEADS, keep[:, 0])
    assert out.dtype == np.float32
    close(out, reference.multi_head_attention(x, x, w, HEADS, keep)[0], 1e-5)


def test_an_empty_row_gives_zeros_and_a_finite_gradient():
    q, k, v = (torch.tensor(side, requires_grad=True) for side in features())
    keep = masks.padding([0, sizes.N_K], sizes.N_K)
    context, weights = attention_per_head(q, k, v, HEADS, keep)
    assert (context[0] == 0).all()
    assert (weights[0] == 0).all()
    (context * torch.randn_like(context)).sum().backward()
    for side in (q, k, v):
        assert side.grad.isfinite().all()
        assert (side.grad[0] == 0).all()
        assert (side.grad[1] != 0).any()


def test_an_empty_row_of_mha_gives_the_bias_of_the_output():
    c_attn, c_proj = packed(sizes.weights())
    x = sizes.sides()[1]
    keep = masks.padding([0, sizes.N_K], sizes.N_K)[:, 0]
    out = mha(x, c_attn, c_proj, HEADS, keep)
    close(out[0], np.broadcast_to(c_proj["b"], out[0].shape))
    close(out[1], mha(x[1], c_attn, c_proj, HEADS))


@pytest.mark.parametrize("name", ["none", "padding", "decoder", "window"])
def test_mha_equals_the_reference(name):
    n = sizes.N_K
    keep = {"none": None, "padding": masks.padding(LENGTHS, n),
            "decoder": masks.decoder(LENGTHS, n), "window": masks.window(n, n, 2, 1)}[name]
    x, w = sizes.sides()[1], sizes.weights()
    one_for_all_heads = keep[:, 0] if keep is not None and keep.ndim == 4 else keep
    out = mha(x, *packed(w), HEADS, one_for_all_heads)
    close(out, reference.multi_head_attention(x, x, w, HEADS, keep)[0])


def test_mha_treats_a_batch_as_its_examples_one_by_one():
    x, parts = sizes.sides()[1], packed(sizes.weights())
    keep = masks.decoder(LENGTHS, sizes.N_K)[:, 0]
    one_by_one = [mha(x[b], *parts, HEADS, keep[b]) for b in range(2)]
    close(mha(x, *parts, HEADS, keep), np.stack(one_by_one))


def test_linear_multiplies_from_the_right_and_adds_the_bias():
    rng = np.random.default_rng(0)
    x, w, b = rng.standard_normal((5, 11)), rng.standard_normal((11, 12)), rng.standard_normal(12)
    expected = [[sum(x[i, c] * w[c, e] for c in range(11)) + b[e] for e in range(12)]
                for i in range(5)]
    close(linear(x, w, b), np.array(expected))


def test_the_arguments_are_left_as_they_were():
    arrays = [*features(), KEEPS["per head"].copy()]
    tensors = [torch.tensor(array) for array in arrays]
    attention_per_head(*tensors[:3], HEADS, tensors[3])
    assert all(np.array_equal(t, a) for t, a in zip(tensors, arrays, strict=True))
    x, parts = sizes.sides()[1], packed(sizes.weights())
    keep = masks.decoder(LENGTHS, sizes.N_K)[:, 0]
    before = [x.copy(), *(a.copy() for part in parts for a in part.values()), keep.copy()]
    mha(x, *parts, HEADS, keep)
    after = [x, *(a for part in parts for a in part.values()), keep]
    assert all(np.array_equal(a, b) for a, b in zip(after, before, strict=True))


INDIVISIBLE = "d_model=12 is not divisible by n_heads=5 (remainder 2); nearest divisors: 2, 3, 4, 6"


def test_heads_that_do_not_divide_the_features_are_refused():
    with pytest.raises(ValueError, match=f"^{re.escape(INDIVISIBLE)}$"):
        attention_per_head(*map(torch.tensor, features()), 5)
    with pytest.raises(ValueError, match=f"^{re.escape(INDIVISIBLE)}$"):
        mha(sizes.sides()[1], *packed(sizes.weights()), 5)


def test_a_query_with_one_feature_too_many_is_refused():
    q, k, v = map(torch.tensor, features())
    with pytest.raises(ValueError, match=r"^d_model=13 is not divisible by n_heads=3"):
        attention_per_head(torch.cat([q, q[..., :1]], dim=-1), k, v, HEADS)


@pytest.mark.parametrize("name", ["k", "v"])
def test_features_of_another_width_are_refused(name):
    q, k, v = map(torch.tensor, features())
    sides = {"k": k, "v": v} | {name: torch.cat([k, k], dim=-1)}
    message = f"q, k and v must have the same d_model (last axis): q has 12, {name} has 24"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        attention_per_head(q, **sides, n_heads=HEADS)


BAD_MASKS = {
    "keys": (np.ones((5, 6), bool), ValueError,
             "keep (5, 6) does not broadcast to the scores (2, 3, 5, 7): axis j has size 7 in the "
             "scores, 6 in keep"),
    "heads": (np.ones((2, 2, 5, 7), bool), ValueError,
              "keep (2, 2, 5, 7) does not broadcast to the scores (2, 3, 5, 7): axis h has size 3 "
              "in the scores, 2 in keep"),
    "three axes": (np.ones((2, 5, 7), bool), ValueError, "is ambiguous"),
    "float": (np.ones((5, 7)), TypeError, "a float64 mask of 0 and 1"),
}


@pytest.mark.parametrize(("keep", "error", "message"), BAD_MASKS.values(), ids=BAD_MASKS)
def test_a_mask_that_does_not_fit_is_refused(keep, error, message):
    with pytest.raises(error, match=re.escape(message)):
        attention_per_head(*map(torch.tensor, features()), HEADS, keep)
