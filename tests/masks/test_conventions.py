"""Every converter of masks says its own convention exactly, and finds its way back."""

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st

from utils import checks, frameworks, masks, reference, sizes
from utils.masks import array_libraries, conventions

FULL = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.5  # (b, h, i, j)
ALIKE = FULL[:, :1]                                         # (b, 1, i, j)
KEYS = masks.padding([7, 3], 7)                             # (b, 1, 1, j)


def test_masks_has_every_converter_under_its_own_name():
    for module in conventions, array_libraries:
        for name in dir(module):
            if name.startswith(("to_", "from_")):
                assert getattr(masks, name) is getattr(module, name)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_additive_is_zero_where_attending_and_minus_infinity_elsewhere(dtype):
    additive = masks.to_additive(FULL, dtype)
    assert additive.dtype == dtype
    assert (additive[FULL] == 0).all()
    assert np.isneginf(additive[~FULL]).all()
    np.testing.assert_array_equal(masks.from_additive(additive), FULL)


def test_additive_is_float32_unless_asked():
    assert masks.to_additive(FULL).dtype == np.float32


@pytest.mark.parametrize("value", [-1e9, np.inf, np.nan, 1.0])
def test_a_bias_is_not_an_additive_mask(value):
    with raises(ValueError, "an additive mask contains only 0 (may attend) and -inf (masked); "
                            "this one contains other numbers, so it is a bias, not a mask"):
        masks.from_additive(np.array([0.0, -np.inf, value]))


def test_sdpa_keeps_the_sense():
    mask = masks.to_sdpa(FULL)
    assert mask.dtype == torch.bool
    assert mask.tolist() == FULL.tolist()
    back = masks.from_sdpa(mask)
    assert isinstance(back, np.ndarray)
    np.testing.assert_array_equal(back, FULL)


@pytest.mark.parametrize("keep", [FULL, FULL[:, :1]])
def test_torch_mha_turns_the_sense_round_and_folds_the_heads_into_the_batch(keep):
    mask = masks.to_torch_mha(keep, 3)
    assert mask.dtype == torch.bool
    assert mask.shape == (6, 5, 7)
    for b, h in np.ndindex(2, 3):
        assert mask[3 * b + h].tolist() == (~keep[b, h % keep.shape[1]]).tolist()
    np.testing.assert_array_equal(masks.from_torch_mha(mask, 3), np.broadcast_to(keep, FULL.shape))


def test_torch_mha_leaves_a_mask_for_all_as_it_is():
    keep = masks.causal(5, 7, "bottom_right")
    assert masks.to_torch_mha(keep, 3).tolist() == (~keep).tolist()
    np.testing.assert_array_equal(masks.from_torch_mha(masks.to_torch_mha(keep, 3), 3), keep)


def test_torch_mha_refuses_three_axes():
    with raises(ValueError, "keep must be (b, h, i, j), (b, 1, i, j) or (i, j), got (3, 5, 7)"):
        masks.to_torch_mha(FULL[0], 3)


def test_key_padding_drops_keys_of_each_example():
    mask = masks.to_key_padding(KEYS)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[False] * 7, [False] * 3 + [True] * 4]
    np.testing.assert_array_equal(masks.from_key_padding(mask), KEYS)


@pytest.mark.parametrize("keep", [ALIKE, FULL[:, :, :1]])
def test_key_padding_cannot_say_masks_that_differ_between_queries_or_heads(keep):
    with raises(ValueError, f"keep {keep.shape} differs between heads or queries; a "
                            "key_padding_mask (b, j) has only one row for each example"):
        masks.to_key_padding(keep)


def test_keras_keeps_the_sense_and_needs_no_axis_for_heads_that_agree():
    mask = masks.to_keras(ALIKE, 2, 5)
    np.testing.assert_array_equal(mask, ALIKE[:, 0])
    np.testing.assert_array_equal(masks.to_keras(np.repeat(ALIKE, 3, axis=1), 2, 5), mask)
    np.testing.assert_array_equal(masks.from_keras(mask), ALIKE)


def test_keras_gets_all_its_axes():
    np.testing.assert_array_equal(masks.to_keras(KEYS, 2, 5), np.repeat(KEYS[:, 0], 5, axis=1))
    np.testing.assert_array_equal(masks.to_keras(masks.causal(5), 2, 5), [masks.causal(5)] * 2)


def test_keras_gets_an_axis_for_heads_that_differ():
    for keep in (FULL, FULL[:1], FULL[:, :, :1]):
        mask = masks.to_keras(keep, 2, 5)
        np.testing.assert_array_equal(mask, np.broadcast_to(keep, FULL.shape))
        np.testing.assert_array_equal(masks.from_keras(mask), mask)


@pytest.mark.parametrize("keep", [FULL, ALIKE, FULL[:1, 0], FULL[0, 0], FULL[0, 0, 0]])
def test_onnx_keeps_the_sense_and_lines_up_four_axes(keep):
    mask = masks.to_onnx(keep, 7)
    assert mask.ndim == 4
    np.testing.assert_array_equal(np.broadcast_to(mask, FULL.shape),
                                  np.broadcast_to(keep, FULL.shape))
    np.testing.assert_array_equal(masks.from_onnx(mask, 7), mask)


def test_onnx_gets_all_keys_since_it_repeats_none():
    mask = masks.to_onnx(FULL[..., :1], 7)
    np.testing.assert_array_equal(mask, np.repeat(FULL[..., :1], 7, axis=-1))


def test_a_short_mask_of_onnx_hides_the_keys_it_does_not_reach_and_three_axes_are_heads():
    keep = masks.from_onnx(FULL[0, :, :, :4], 7)
    assert keep.dtype == bool
    assert keep.shape == (1, 3, 5, 7)
    np.testing.assert_array_equal(keep[0, ..., :4], FULL[0, ..., :4])
    assert not keep[..., 4:].any()


@pytest.mark.parametrize("keep", [ALIKE, KEYS, FULL[0, 0], np.repeat(ALIKE, 3, axis=1)])
def test_drop_turns_the_sense_round_and_has_no_axis_for_heads(keep):
    mask = masks.to_drop(keep)
    assert mask.dtype == torch.bool
    for b, i, j in np.ndindex(2, 5, 7):
        assert mask[b % mask.shape[0], i % mask.shape[1], j] != (
            np.broadcast_to(keep, FULL.shape)[b, 0, i, j])
    np.testing.assert_array_equal(np.broadcast_to(masks.from_drop(mask), FULL.shape),
                                  np.broadcast_to(keep, FULL.shape))


@pytest.mark.parametrize("keep", [ALIKE, KEYS, FULL[0, 0], np.repeat(ALIKE, 3, axis=1)])
def test_sequence_first_puts_the_examples_last(keep):
    mask = masks.to_sequence_first(keep)
    assert mask.dtype == torch.bool
    wide = np.broadcast_to(keep, FULL.shape)
    for b, i, j in np.ndindex(2, 5, 7):
        assert mask[i % mask.shape[0], j, b % mask.shape[2]] == wide[b, 0, i, j]
    back = masks.from_sequence_first(mask)
    np.testing.assert_array_equal(np.broadcast_to(back, FULL.shape), wide)


# --- JAX and MLX: what they do with a mask, executed

LIBRARY_MASKS = [FULL, ALIKE, KEYS, FULL[0, 0], FULL[:1, :, :1]]


@pytest.mark.parametrize("keep", LIBRARY_MASKS)
def test_jax_reads_the_mask_as_we_do(keep):
    keep = keep.copy()
    keep[..., 2] = True  # in a fully masked row, JAX attends to all keys
    q, k, v = sizes.qkv(d_v=sizes.D_HEAD)
    jax = frameworks.jax()
    mask = masks.to_jax(keep)
    out = jax.nn.dot_product_attention(*(np.swapaxes(side, 1, 2) for side in (q, k, v)), mask=mask)
    want, _ = reference.attention(q, k, v, keep)
    assert checks.difference(np.swapaxes(out, 1, 2), want) < 1e-5
    assert mask.ndim == 4
    for array in (mask, jax.numpy.asarray(mask)):
        np.testing.assert_array_equal(masks.from_jax(array), mask)
    np.testing.assert_array_equal(masks.from_jax(FULL[0]), FULL[:1])


@pytest.mark.parametrize("keep", LIBRARY_MASKS)
def test_mlx_reads_the_mask_as_we_do(keep):
    mx = pytest.importorskip("mlx.core")
    keep = keep.copy()
    keep[..., 2] = True
    sides = [side.astype(np.float32) for side in sizes.qkv(d_v=sizes.D_HEAD)]
    mask = masks.to_mlx(keep)
    out = mx.fast.scaled_dot_product_attention(*map(mx.array, sides), scale=0.5, mask=mask)
    want, _ = reference.attention(*sides, keep)
    assert checks.difference(np.array(out), want) < 1e-5
    back = masks.from_mlx(mask)
    assert (back.dtype, back.ndim) == (bool, 4)
    np.testing.assert_array_equal(np.broadcast_to(back, FULL.shape),
                                  np.broadcast_to(keep, FULL.shape))


def test_an_mlx_mask_of_three_axes_is_ambiguous_too():
    pytest.importorskip("mlx.core")
    with pytest.raises(ValueError, match="ambiguous"):
        masks.to_mlx(FULL[:, 0])


def test_valid_lens_are_one_for_each_example_or_one_for_each_query():
    lens = masks.to_valid_lens(KEYS, 2)
    assert lens.dtype == np.int32
    assert lens.tolist() == [7, 3]
    assert masks.to_valid_lens(masks.causal(5, 7, "top_left"), 2).tolist() == [[1, 2, 3, 4, 5]] * 2
    both = KEYS & masks.causal(5, 7, "bottom_right")
    assert masks.to_valid_lens(both, 2).tolist() == [[3, 4, 5, 6, 7], [3] * 5]


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=2))
def test_valid_lens_find_their_way_back(lens):
    keep = masks.from_valid_lens(lens, 4)
    assert keep.shape == (2, 1, 3, 4)
    assert keep.sum(axis=-1)[:, 0].tolist() == lens
    assert masks.to_valid_lens(keep, 2).tolist() == lens
    first = [row[0] for row in lens]
    np.testing.assert_array_equal(masks.from_valid_lens(first, 4), masks.padding(first, 4))


def test_valid_lens_cannot_say_a_gap():
    with raises(ValueError, "valid_lens counts keys from the first one, but keep has a row "
                            "with a masked key before an unmasked one"):
        masks.to_valid_lens(masks.window(5, 5, 1), 2)


def test_valid_lens_that_cannot_be_are_refused():
    with raises(ValueError, "lengths must be integers (b,) in 0 .. n_k=7, got [8, 3]"):
        masks.from_valid_lens([8, 3], 7)


@pytest.mark.parametrize("convert", [masks.to_drop, masks.to_sequence_first,
                                     lambda keep: masks.to_valid_lens(keep, 2)])
def test_one_mask_for_all_heads_cannot_say_that_they_differ(convert):
    with raises(ValueError, "keep (2, 3, 5, 7) differs between heads, but this convention has "
                            "one mask for all heads"):
        convert(FULL)


@pytest.mark.parametrize("convert", [masks.to_key_padding, masks.to_drop,
                                     lambda keep: masks.to_keras(keep, 2, 5), masks.to_jax,
                                     lambda keep: masks.to_onnx(keep, 7)])
def test_three_axes_are_ambiguous(convert):
    with raises(ValueError, "keep (2, 5, 7) is ambiguous for (b, h, i, j): if its first axis "
                            "is the examples, pass keep[:, None]; if it is the heads, keep[None]"):
        convert(FULL[:, 0])
    with raises(ValueError, "keep (1, 2, 3, 5, 7) must have at most four axes, (b, h, i, j)"):
        convert(FULL[None])


CONVERTERS = [masks.to_sdpa, masks.from_sdpa, lambda m: masks.to_torch_mha(m, 3),
              lambda m: masks.to_keras(m, 2, 5), lambda m: masks.to_onnx(m, 7),
              masks.to_additive, lambda m: masks.from_torch_mha(m, 3), masks.from_keras,
              lambda m: masks.from_onnx(m, 7), masks.to_key_padding, masks.from_key_padding,
              masks.to_drop, masks.from_drop, masks.to_sequence_first, masks.from_sequence_first,
              lambda m: masks.to_valid_lens(m, 2), masks.to_jax, masks.from_jax, masks.from_mlx]


@pytest.mark.parametrize("convert", CONVERTERS)
def test_converters_refuse_what_is_not_bool(convert):
    with raises(TypeError, "keep must be bool (True = may attend), got a float32 mask of 0 and "
                           "-inf, which is an additive mask; pass "
                           "utils.masks.from_additive(keep)"):
        convert(masks.to_additive(FULL))


@pytest.mark.parametrize("convert", [masks.to_sdpa, masks.to_drop, masks.to_sequence_first,
                                     lambda keep: masks.to_torch_mha(keep, 3)])
def test_converters_take_arrays_that_pytorch_would_not(convert):
    read_only = np.broadcast_to(masks.causal(5), (2, 1, 5, 5))
    assert convert(read_only).tolist() == convert(read_only.copy()).tolist()
    backwards = masks.causal(5)[:, ::-1]
    assert convert(backwards).tolist() == convert(backwards.copy()).tolist()


def test_converters_do_not_share_memory_that_could_change_the_mask():
    keep = FULL.copy()
    masks.to_torch_mha(keep, 3)[:] = True
    np.testing.assert_array_equal(keep, FULL)
