"""The search finds the smallest sets that explain, and the constants are read exactly."""

import numpy as np
import pytest

from utils import sizes
from utils.doctor import _search, faulty
from utils.doctor._search import Switch
from utils.doctor.faulty.kernel import BATCH, HEADS, KEYS, QUERIES, Band, Masking
from utils.doctor.levels import fit

A, B, C, D = (Switch(name, {name: 1}) for name in "abcd")
OTHER_A = Switch("a", {"a": 2})
Q, K, V = sizes.qkv(3)
PRODUCTS = Q @ K.swapaxes(-1, -2)
KEEP = np.random.default_rng(1).random(PRODUCTS.shape) < 0.6
KEEP[..., 0] = True
EVERYWHERE = np.ones(PRODUCTS.shape, dtype=bool)


def weights(keep=None, **settings):
    return faulty.kernel.attention(Q, K, V, keep, **settings)[1]


@pytest.mark.parametrize(("wanted", "found"), [
    ([{}], [()]), ([{"b": 1}], [(B,)]), ([{"a": 1}, {"c": 1}], [(A,), (C,)]),
    ([{"a": 2, "d": 1}, {"a": 1, "b": 1, "c": 1}], [(D, OTHER_A)]),
    ([{"a": 1, "b": 1, "c": 1}], [(A, B, C)]), ([{"a": 1, "b": 1, "c": 1, "d": 1}], [])])
def test_the_smallest_sets_are_found(wanted, found):
    assert _search.search([A, B, C, D, OTHER_A], lambda s: s in wanted).found == found


def test_the_search_ends_in_time():
    switches = [Switch(str(n), {str(n): 1}) for n in range(60)]
    asked = []
    assert _search.search(switches, asked.append, seconds=0, least=0) == ([], 61, 36051)
    assert len(asked) == 61  # none and single ones are always asked
    assert _search.search(switches, asked.append, largest=2, seconds=0, least=70) == (
        [], 70, 1831)  # and so many
    assert _search.search(switches[:9], asked.append, largest=2) == ([], 46, 46)


def test_sets_of_the_last_switches_come_first_and_are_found_in_order():
    asked = []
    _search.search([A, B, C, D], lambda settings: asked.append("".join(settings)), largest=2)
    assert asked == ["", *"dcba", "cd", "bd", "bc", "ad", "ac", "ab"]
    both = [{"c": 1, "d": 1}, {"a": 1, "b": 1}]
    assert _search.search([A, B, C, D], lambda s: s in both) == ([(A, B), (C, D)], 11, 15)


def test_rare_switches_are_in_no_set_of_three_and_others_only_beside_those_that_are_named():
    asked = []
    found = _search.search([A, B], lambda settings: asked.append("".join(sorted(settings))),
                           rare=[C], alone=[D], beside=[A])
    assert found == ([], 9, 9)
    assert sorted(asked) == sorted(["", *"abcd", "ab", "ac", "bc", "ad"])
    both = [{"a": 1, "d": 1}, {"b": 1, "c": 1}]
    assert _search.search([A, B], lambda s: s in both, rare=[C], alone=[D], beside=[A]).found == [
        (C, B), (A, D)]


def test_two_values_of_one_setting_do_not_go_together():
    assert _search.merged((A, B)) == {"a": 1, "b": 1}
    assert _search.merged((A, OTHER_A)) is None
    assert _search.merged(()) == {}


@pytest.mark.parametrize(("got", "expected", "gap", "defined_only"), [
    ([1.0, 2.5], [1.0, 2.0], 0.25, 0.25), ([0.1], [0.3], 0.2, 0.2),
    ([np.nan], [1.0], np.inf, np.inf),
    ([1.0], [np.nan], np.inf, 0.0), ([np.nan], [np.nan], 0.0, 0.0), ([np.inf], [np.inf], 0.0, 0.0)])
def test_the_gap_is_relative_above_one_and_infinite_for_one_nan(got, expected, gap, defined_only):
    got, expected = np.array(got), np.array(expected)
    assert _search.gap(got, expected) == pytest.approx(gap)
    assert _search.gap(got, expected, defined_only=True) == pytest.approx(defined_only)


@pytest.mark.parametrize(("number", "text"), [
    (3e-16, "< 1e-9"), (0.0, "< 1e-9"), (2e-7, "< 1e-5"), (5e-4, "< 1e-3"), (0.023, "2e-02")])
def test_a_difference_of_rounding_is_told_by_its_bound(number, text):
    assert _search.rounded(number) == text


@pytest.mark.parametrize("axes", [(KEYS,), (QUERIES,), (HEADS,), (HEADS, KEYS), (BATCH,)])
def test_the_scale_is_read_off_the_weights(axes):
    found = fit.scales(weights(axes=axes, scale=0.3), PRODUCTS, np.True_)
    assert found[axes] == pytest.approx(0.3, abs=1e-12)
    assert set(found) <= {axes, (KEYS,), (HEADS,)}  # over both is linear over each


def test_no_scale_is_read_off_weights_of_another_kind():
    assert fit.scales(np.maximum(PRODUCTS, 0), PRODUCTS, np.True_) == {}


def test_the_scale_is_estimated_without_a_mask():
    soft = weights(KEEP, masking=Masking("fill", value=-1.0))
    assert fit.scales(soft, PRODUCTS, np.True_) == {}
    assert fit.scales(soft, PRODUCTS, KEEP)[KEYS,] == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("how", ["fill", "add"])
def test_a_mask_value_is_estimated_from_the_weights(how):
    soft = weights(KEEP, masking=Masking(how, value=-7.0))
    found = fit.mask_value(soft, PRODUCTS, KEEP, EVERYWHERE, (KEYS,), 0.5)
    assert (found.how, found.value) == (how, pytest.approx(-7, abs=1e-10))


@pytest.mark.parametrize("how", ["fill", "add"])
@pytest.mark.parametrize("value", [-98.0, -100.0])
def test_a_mask_value_is_rounded_where_float32_has_lost_the_digits_of_the_weights(how, value):
    soft = weights(KEEP, masking=Masking(how, value=value)).astype("float32").astype("float64")
    assert 0 < soft[~KEEP].max() < 1e-37
    assert fit.mask_value(soft, PRODUCTS, KEEP, EVERYWHERE, (KEYS,), 0.5) == Masking(
        how, value=value)
    assert fit.mask_value(np.where(KEEP, soft, 0.0), PRODUCTS, KEEP, EVERYWHERE, (KEYS,),
                            0.5) is None


def test_weights_of_zero_have_no_mask_value():
    assert fit.mask_value(weights(KEEP), PRODUCTS, KEEP, EVERYWHERE, (KEYS,), 0.5) is None
    half = weights(KEEP, masking=Masking("fill", value=-7.0)) * (KEEP | (PRODUCTS > 0))
    assert fit.mask_value(half, PRODUCTS, KEEP, EVERYWHERE, (KEYS,), 0.5) is None
    assert fit.mask_value(half, PRODUCTS, KEEP, KEEP | (PRODUCTS > 0), (KEYS,), 0.5) is not None


@pytest.mark.parametrize("true", [-8.0, -0.25, 0.0, 0.3, 5.0])
def test_a_number_is_fitted_within_the_grid(true):
    grid = [-8.0, -1.0, 0.0, 1.0, 10.0]
    assert fit.fitted(lambda x: abs(x - true), grid) == pytest.approx(true, abs=1e-8)
    assert len({fit.fitted(lambda x: abs(x - true), grid, n) for n in (0, 1, 2)}) == 3


@pytest.mark.parametrize("align", ["top_left", "bottom_right"])
@pytest.mark.parametrize("band", [Band(2, 1), Band(1, 0), Band(None, 1), Band(None, None)])
def test_the_reach_is_read_off_the_weights(band, align):
    assert fit.reach(weights(band=band, align=align), align) == band
