"""Masks cell by cell, written as pictures (x = may attend), and every way there and back."""

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given
from hypothesis import strategies as st

from utils import masks

LENGTHS = st.integers(1, 6)
FULL = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.5  # (b, h, i, j)


def picture(keep):
    """Return rows of x (may attend) and . (may not) of a mask (i, j)."""
    assert keep.dtype == bool
    assert keep.ndim == 2
    return ["".join(".x"[int(cell)] for cell in row) for row in keep]


# --- the masks

def test_causal_lets_a_query_attend_to_itself_and_the_past():
    assert picture(masks.causal(4)) == ["x...", "xx..", "xxx.", "xxxx"]


def test_causal_hangs_from_the_corner_that_is_named():
    assert picture(masks.causal(3, 5, "top_left")) == ["x....", "xx...", "xxx.."]
    assert picture(masks.causal(3, 5, "bottom_right")) == ["xxx..", "xxxx.", "xxxxx"]
    assert picture(masks.causal(4, 2, "top_left")) == ["x.", "xx", "xx", "xx"]
    assert picture(masks.causal(4, 2, "bottom_right")) == ["..", "..", "x.", "xx"]


def test_causal_without_a_corner_is_refused_when_lengths_differ():
    with raises(ValueError, "n_q=5 and n_k=7, align=None: say which corner the mask hangs from, "
                            "align='top_left' or 'bottom_right'"):
        masks.causal(5, 7)


def test_causal_with_an_unknown_corner_is_refused():
    with raises(ValueError, "n_q=5 and n_k=5, align='top_right': say which corner the mask hangs "
                            "from, align='top_left' or 'bottom_right'"):
        masks.causal(5, 5, align="top_right")


@given(LENGTHS, LENGTHS, st.sampled_from(["top_left", "bottom_right"]))
def test_offsets_count_from_where_the_query_stands(n_q, n_k, align):
    offsets = masks.offsets(n_q, n_k, align)
    stands = 0 if align == "top_left" else n_k - n_q
    assert offsets.tolist() == [[j - (i + stands) for j in range(n_k)] for i in range(n_q)]


def test_padding_keeps_the_first_keys_of_each_example():
    keep = masks.padding([4, 0, 2], 4)
    assert keep.shape == (3, 1, 1, 4)
    assert picture(keep[:, 0, 0]) == ["xxxx", "....", "xx.."]


@pytest.mark.parametrize("lengths", [[3, 8], [-1, 3], [[3, 4]], 3, [2.5, 3.0]])
def test_padding_refuses_lengths_that_cannot_be(lengths):
    with raises(ValueError, f"lengths must be (b,) integers in 0 .. n_k=7, got {lengths}"):
        masks.padding(lengths, 7)


def test_window_counts_keys_before_and_after():
    assert picture(masks.window(4, 4, 1)) == ["x...", "xx..", ".xx.", "..xx"]
    assert picture(masks.window(4, 4, 0, 2)) == ["xxx.", ".xxx", "..xx", "...x"]
    assert picture(masks.window(2, 4, 1, align="bottom_right")) == [".xx.", "..xx"]


@given(LENGTHS, LENGTHS, st.integers(0, 3), st.integers(0, 3),
       st.sampled_from(["top_left", "bottom_right"]))
def test_window_is_a_band_around_the_query(n_q, n_k, left, right, align):
    keep = masks.window(n_q, n_k, left, right, align)
    for i, j in np.ndindex(n_q, n_k):
        stands = i + (n_k - n_q if align == "bottom_right" else 0)
        assert keep[i, j] == (stands - left <= j <= stands + right)


@given(LENGTHS, LENGTHS, st.sampled_from(["top_left", "bottom_right"]))
def test_a_wide_enough_window_is_causal(n_q, n_k, align):
    np.testing.assert_array_equal(masks.window(n_q, n_k, n_q + n_k, align=align),
                                  masks.causal(n_q, n_k, align))


def test_band_takes_queries_that_stand_anywhere():
    assert picture(masks.band([-1, 2, 0], 4, right=0)) == ["....", "xxx.", "x..."]
    assert picture(masks.band([1, 3], 4, left=1)) == ["xxxx", "..xx"]
    assert picture(masks.band([1, 3], 4, left=1, right=0)) == ["xx..", "..xx"]
    assert picture(masks.band([1, 3], 2)) == ["xx", "xx"]


def test_band_takes_positions_of_each_example():
    keep = masks.band([[0, 1], [2, 3]], 4, right=0)
    assert keep.shape == (2, 1, 2, 4)
    assert picture(keep[0, 0]) == ["x...", "xx.."]
    assert picture(keep[1, 0]) == ["xxx.", "xxxx"]


def test_decoder_is_causal_and_hides_padding():
    keep = masks.decoder([3, 1], 3)
    assert keep.shape == (2, 1, 3, 3)
    assert picture(keep[0, 0]) == ["x..", "xx.", "xxx"]
    assert picture(keep[1, 0]) == ["x..", "x..", "x.."]


# --- there and back

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
    with raises(ValueError, "an additive mask has only 0 (may attend) and -inf (may not); this one "
                            "also has other numbers, so it is a bias, not a mask"):
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


def test_keras_keeps_the_sense_and_has_one_mask_for_all_heads():
    keep = FULL[:, :1]
    mask = masks.to_keras(keep, 2, 5)
    np.testing.assert_array_equal(mask, keep[:, 0])
    np.testing.assert_array_equal(masks.to_keras(np.repeat(keep, 3, axis=1), 2, 5), mask)
    np.testing.assert_array_equal(masks.from_keras(mask), keep)


def test_keras_gets_all_its_axes():
    np.testing.assert_array_equal(masks.to_keras(masks.padding([7, 3], 7), 2, 5),
                                  np.repeat(masks.padding([7, 3], 7)[:, 0], 5, axis=1))
    np.testing.assert_array_equal(masks.to_keras(masks.causal(5), 2, 5), [masks.causal(5)] * 2)


def test_keras_cannot_say_masks_that_differ_between_heads():
    with raises(ValueError, "keep (2, 3, 5, 7) differs between heads; Keras takes one for all"):
        masks.to_keras(FULL, 2, 5)


CONVERTERS = [masks.to_sdpa, masks.from_sdpa, lambda m: masks.to_torch_mha(m, 3),
              lambda m: masks.from_torch_mha(m, 3), lambda m: masks.to_keras(m, 2, 5),
              masks.from_keras, masks.to_additive]


@pytest.mark.parametrize("convert", CONVERTERS)
def test_converters_refuse_what_is_not_bool(convert):
    with raises(TypeError, "got a float32 mask of 0 and -inf, which is made to be added; pass bool "
                           "(True = may attend), utils.masks.from_additive(mask)"):
        convert(masks.to_additive(FULL))


@pytest.mark.parametrize("convert", CONVERTERS[:3])
def test_converters_take_arrays_that_pytorch_would_not(convert):
    read_only = np.broadcast_to(masks.causal(5), (2, 1, 5, 5))
    assert convert(read_only).tolist() == convert(read_only.copy()).tolist()
    backwards = masks.causal(5)[:, ::-1]
    assert convert(backwards).tolist() == convert(backwards.copy()).tolist()


def test_converters_do_not_share_memory_that_could_change_the_mask():
    keep = FULL.copy()
    masks.to_torch_mha(keep, 3)[:] = True
    np.testing.assert_array_equal(keep, FULL)
