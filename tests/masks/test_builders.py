"""Masks cell by cell, written as pictures (x = may attend)."""

import numpy as np
import pytest
from exact import raises
from hypothesis import given, strategies as st

from utils import masks

LENGTHS = st.integers(1, 6)


def picture(keep):
    """Return rows of x (may attend) and . (may not) of a mask (i, j)."""
    assert keep.dtype == bool
    assert keep.ndim == 2
    return ["".join(".x"[int(cell)] for cell in row) for row in keep]


def test_causal_lets_a_query_attend_to_itself_and_the_past():
    assert picture(masks.causal(4)) == ["x...", "xx..", "xxx.", "xxxx"]


def test_causal_hangs_from_the_corner_that_is_named():
    assert picture(masks.causal(3, 5, "top_left")) == ["x....", "xx...", "xxx.."]
    assert picture(masks.causal(3, 5, "bottom_right")) == ["xxx..", "xxxx.", "xxxxx"]
    assert picture(masks.causal(4, 2, "top_left")) == ["x.", "xx", "xx", "xx"]
    assert picture(masks.causal(4, 2, "bottom_right")) == ["..", "..", "x.", "xx"]


def test_causal_without_a_corner_is_refused_when_lengths_differ():
    with raises(ValueError, "align must be 'top_left' or 'bottom_right', or None if n_q == n_k, "
                            "got align=None with n_q=5 and n_k=7"):
        masks.causal(5, 7)


def test_causal_with_an_unknown_corner_is_refused():
    with raises(ValueError, "align must be 'top_left' or 'bottom_right', or None if n_q == n_k, "
                            "got align='top_right' with n_q=5 and n_k=5"):
        masks.causal(5, 5, align="top_right")


@given(LENGTHS, LENGTHS, st.sampled_from(["top_left", "bottom_right"]))
def test_offsets_count_from_where_the_query_stands(n_q, n_k, align):
    offsets = masks.offsets(n_q, n_k, align)
    stands = 0 if align == "top_left" else n_k - n_q
    assert offsets.tolist() == [[j - (i + stands) for j in range(n_k)] for i in range(n_q)]


def test_chunks_end_where_a_window_slides_on():
    assert picture(masks.chunks(5, 5, 2)) == ["xx...", "xx...", "..xx.", "..xx.", "....x"]
    assert picture(masks.chunks(5, 5, 2) & masks.causal(5)) == [
        "x....", "xx...", "..x..", "..xx.", "....x"]
    assert picture(masks.window(5, 5, left=1)) == ["x....", "xx...", ".xx..", "..xx.", "...xx"]


@given(LENGTHS, LENGTHS, st.integers(1, 7), st.sampled_from(["top_left", "bottom_right"]))
def test_chunks_are_counted_from_the_first_key(n_q, n_k, size, align):
    first = 0 if align == "top_left" else n_k - n_q
    assert masks.chunks(n_q, n_k, size, align).tolist() == [
        [(first + i) // size == j // size for j in range(n_k)] for i in range(n_q)]


def test_chunks_of_no_position_are_refused():
    with raises(ValueError, "size must be at least 1, got 0"):
        masks.chunks(5, 5, 0)


def test_padding_keeps_the_first_keys_of_each_example():
    keep = masks.padding([4, 0, 2], 4)
    assert keep.shape == (3, 1, 1, 4)
    assert picture(keep[:, 0, 0]) == ["xxxx", "....", "xx.."]


@pytest.mark.parametrize("lengths", [[3, 8], [-1, 3], [[3, 4]], 3, [2.5, 3.0]])
def test_padding_refuses_lengths_that_cannot_be(lengths):
    with raises(ValueError, f"lengths must be integers (b,) in 0 .. n_k=7, got {lengths}"):
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
