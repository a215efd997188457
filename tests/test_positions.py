"""The slopes and the bias of ALiBi."""

import numpy as np
import pytest
from exact import raises
from hypothesis import given
from hypothesis import strategies as st

from utils.positions import alibi_bias, alibi_slopes


def test_the_slopes_of_eight_heads_are_the_paper_s_one_half_to_one_256th():
    assert alibi_slopes(8).tolist() == [1 / 2 ** n for n in range(1, 9)]


def test_the_slopes_of_sixteen_heads_lie_between_those_of_eight():
    slopes = alibi_slopes(16)
    assert np.allclose(slopes[1::2], alibi_slopes(8), rtol=1e-15)
    assert np.allclose(slopes[1:] / slopes[:-1], 2 ** -0.5)


@pytest.mark.parametrize(("n_heads", "eighths"), [
    (1, [64]), (2, [32, 64]), (4, [16, 32, 48, 64]),
    (3, [32, 64, 16]), (5, [16, 32, 48, 64, 8]), (6, [16, 32, 48, 64, 8, 24]),
    (7, [16, 32, 48, 64, 8, 24, 40]),
    (12, [8, 16, 24, 32, 40, 48, 56, 64, 4, 12, 20, 28]),
])
def test_other_counts_take_the_smaller_series_and_every_other_slope_of_the_larger(n_heads, eighths):
    assert np.allclose(alibi_slopes(n_heads), [2 ** (-n / 8) for n in eighths], rtol=1e-14)


@given(st.integers(1, 200))
def test_every_head_has_a_slope_of_its_own_between_0_and_1(n_heads):
    slopes = alibi_slopes(n_heads)
    assert slopes.dtype == np.float64
    assert len(np.unique(slopes.round(12))) == len(slopes) == n_heads
    assert ((slopes > 0) & (slopes < 1)).all()
    assert np.isclose(slopes[2 ** (n_heads.bit_length() - 1) - 1], 2 ** -8)


def test_no_heads_are_refused():
    with raises(ValueError, "n_heads=0: there must be at least one head"):
        alibi_slopes(0)


@pytest.mark.parametrize(("align", "first"), [("top_left", 0), ("bottom_right", 2)])
def test_the_bias_is_minus_the_slope_times_the_distance(align, first):
    bias = alibi_bias(3, 5, 7, align)
    expected = [[[-slope * abs(j - (first + i)) for j in range(7)] for i in range(5)]
                for slope in (2 ** -4, 2 ** -8, 2 ** -2)]
    assert bias.dtype == np.float64
    assert np.allclose(bias, expected, rtol=1e-14)


def test_before_the_query_the_bias_differs_from_slope_times_key_by_a_constant_of_the_row():
    bias, keys = alibi_bias(6, 9, 9), alibi_slopes(6)[:, None, None] * np.arange(9)
    difference = np.where(np.tri(9, dtype=bool), bias - keys, np.nan)  # (h, i, j)
    assert np.nanmax(np.nanmax(difference, axis=-1) - np.nanmin(difference, axis=-1)) < 1e-14


def test_other_lengths_need_to_say_where_the_queries_stand():
    with pytest.raises(ValueError, match=r"^n_q=2 and n_k=5, align=None: say which corner"):
        alibi_bias(4, 2, 5)
