"""A case asks what it says, and two answers are told apart where they differ most."""

import numpy as np
import pytest
from exact import raises

from utils import masks, sizes
from utils.doctor.probes.case import (
    Case,
    Finding,
    ShapeError,
    causal,
    gaps,
    kernel_case,
    layer_case,
    padded,
)

KERNEL, LAYER, SELF = kernel_case(), layer_case(), layer_case(self_attention=True)
CASES = pytest.mark.parametrize("case", [KERNEL, LAYER, SELF], ids=["kernel", "layer", "self"])


def test_the_sizes_are_those_of_the_course():
    shapes = [[x.shape for x in (case.queries, *case.sources, case.allowed)] for case in (
        KERNEL, LAYER, SELF, kernel_case(grouped=True), kernel_case(n_q=3, d_v=9))]
    assert shapes == [
        [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 8), (2, 5, 7)],
        [(2, 5, 12), (2, 7, 12), (2, 5, 7)], [(2, 7, 12), (2, 7, 7)],
        [(2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 8), (2, 5, 7)],
        [(2, 3, 3, 4), (2, 3, 7, 4), (2, 3, 7, 9), (2, 3, 7)]]
    assert layer_case(d_in=11).queries.shape == (2, 5, 11)


@CASES
def test_a_new_case_forbids_nothing(case):
    assert case.keep is None
    assert case.allowed.all()
    assert case.tolerance == 1e-9
    assert case.inputs()[-1] is None


@pytest.mark.parametrize("build", [kernel_case, layer_case])
def test_the_seed_and_the_tolerance_are_the_callers(build):
    assert build(1, tolerance=1e-4).tolerance == 1e-4
    assert np.array_equal(build(1).queries, build(1).queries)
    assert not np.isclose(build(1).queries, build().queries).any()


@CASES
def test_a_program_gets_copies(case):
    given = padded(case, [7, 3])
    inputs = given.inputs()
    for x, own in zip(inputs, (case.queries, *case.tokens(), given.keep), strict=True):
        assert np.array_equal(x, own)
        assert not np.shares_memory(x, own)


def test_memory_is_x_in_self_attention():
    x, memory, _ = SELF.inputs()
    assert memory is x
    assert LAYER.inputs()[1] is not LAYER.inputs()[0]


def test_the_answer_is_the_context_in_float64():
    got = KERNEL.ask(lambda q, k, v, keep: (q.astype("float32"), "weights"))
    assert got.dtype == np.float64
    assert np.allclose(got, KERNEL.queries, atol=1e-6)
    assert np.array_equal(LAYER.ask(lambda x, memory, keep: x), LAYER.queries)


def test_an_answer_in_another_layout_is_refused():
    with raises(ShapeError, "for queries (2, 3, 5, 4), expected an output (2, 3, 5) and one more "
                            "axis, got (2, 3, 7, 4)"):
        KERNEL.ask(lambda q, k, v, keep: k)


def test_tokens_are_the_sources():
    (k, v), (memory,) = KERNEL.sources, LAYER.sources
    assert KERNEL.tokens() == (k, v)
    assert LAYER.tokens() == (memory,)
    assert SELF.tokens() == (SELF.queries,)


def test_other_tokens_in_self_attention_are_other_queries():
    new = -SELF.queries
    assert SELF.with_tokens([new]).queries is new
    assert SELF.with_tokens([new]).sources == ()
    changed = LAYER.with_tokens([new])
    assert changed.sources[0] is new
    assert changed.queries is LAYER.queries


def test_a_rule_is_as_large_as_the_scores():
    keep = np.arange(7) < 4
    case = KERNEL.with_mask(keep, keep)
    assert case.keep is keep
    assert np.array_equal(case.allowed, np.broadcast_to(keep, (2, 5, 7)))


def test_padding_is_given_and_demanded():
    case = padded(KERNEL, [7, 3])
    assert np.array_equal(case.keep, masks.padding([7, 3], 7))
    assert case.allowed.sum(axis=-1).tolist() == [[7] * 5, [3] * 5]


def test_masks_are_joined():
    own, given = causal(SELF, itself=True), causal(SELF)
    for case in (padded(given, [7, 3]), causal(padded(SELF, [7, 3]))):
        assert np.array_equal(case.keep, masks.decoder([7, 3], 7))
        assert np.array_equal(case.allowed, masks.decoder([7, 3], 7)[:, 0])
    for case in (padded(own, [7, 3]), causal(padded(SELF, [7, 3]), itself=True)):
        assert np.array_equal(case.keep, masks.padding([7, 3], 7))
        assert np.array_equal(case.allowed, masks.decoder([7, 3], 7)[:, 0])


def test_a_causal_program_is_given_no_mask():
    asked, itself = causal(KERNEL, "bottom_right"), causal(KERNEL, "top_left", itself=True)
    assert np.array_equal(asked.keep[0, 0], masks.causal(5, 7, "bottom_right"))
    assert asked.allowed[1].sum(axis=-1).tolist() == [3, 4, 5, 6, 7]
    assert itself.keep is None
    assert itself.allowed[1].sum(axis=-1).tolist() == [1, 2, 3, 4, 5]


def test_gaps_are_relative_to_the_largest_number_expected():
    assert gaps(np.array([1.0, 8.5]), np.array([0.5, 10.0])).tolist() == [0.05, 0.15]
    assert gaps(np.array([0.25]), np.array([0.5])).tolist() == [0.25]


def test_a_nan_that_is_not_shared_is_an_infinite_gap():
    nan, inf = np.nan, np.inf
    found = gaps(np.array([nan, nan, 1.0, inf, inf]), np.array([nan, 1.0, nan, inf, 1.0]))
    assert np.array_equal(found == 0, [True, False, False, True, False])
    assert (found[[1, 2, 4]] > 1e300).all()


def compared(got, expected, bound, bad="bad", chosen=None):
    """Return the Finding on outputs of two examples and three queries."""
    case = Case(np.zeros((2, 3, 4)), (), None, np.ones((2, 3, 3), bool), bound)
    return case.compare("p", got, expected, "good", bad, chosen)


def test_equal_answers_are_judged_good():
    found = compared(np.ones((2, 3, 4)), np.ones((2, 3, 4)) + 1e-7, 1e-6)
    assert found == Finding("p", True, pytest.approx(1e-7), 1e-6, "", "good")
    assert str(found) == "ok   p                  good"


def test_the_worst_location_is_named():
    got = np.zeros((2, 3, 4))
    got[1, 2, 3], got[0, 1, 2] = 2.0, 1.0
    found = compared(got, np.zeros((1, 3, 1)), 1e-6, "{got} not {expected} at {where}")
    assert found == ("p", False, 2.0, 1e-6, "example 1, query 2", "2 not 0 at example 1, query 2")
    assert str(found).startswith("FAIL p ")
    got = np.zeros((2, 3, 5, 8))
    got[1, 2, 3, 7] = 1.0
    assert KERNEL.compare("p", got, 0 * got, "good", "bad").where == "example 1, head 2, query 3"


def test_only_what_counts_is_judged():
    got = np.zeros((2, 3, 4))
    got[1, 2, 3] = 1.0
    others = np.arange(6).reshape(2, 3) < 5
    assert compared(got, 0 * got, 0, chosen=others).ok
    assert not compared(got, 0 * got, 0, chosen=~others).ok
    got = np.zeros((2, 3, 5, 8))
    got[:, :, 2] = 1.0
    chosen = np.arange(5) != np.array([2, 2])[:, None]
    assert KERNEL.compare("p", got, 0 * got, "good", "bad", chosen).ok
    assert not KERNEL.compare("p", got, 0 * got, "good", "bad").ok


def test_not_having_been_asked_is_shown():
    assert str(Finding("p", None, np.nan, 0, "", "why")) == "?    p                  why"


def test_cases_are_tuples_that_anyone_can_build():
    q, k, v = sizes.qkv()
    case = Case(q, (k, v), None, np.ones((2, 5, 7), bool))
    assert np.array_equal(case.ask(lambda q, k, v, keep: 2 * q), 2 * q)
    assert Case._fields == ("queries", "sources", "keep", "allowed", "tolerance")


def test_two_numbers_that_differ_are_shown_with_the_digits_that_it_takes():
    ones = np.ones((2, 3, 4))
    for one, other, words in ((0.9012562, 0.9008653, "0.901256 and 0.900865"),
                              (0.5, 2.0, "0.5 and 2"), (1.0, 1.0 + 1e-8, "1 and 1.00000001")):
        found = compared(one * ones, other * ones, 1e-12, "{got} and {expected}")
        assert found.sentence == words
