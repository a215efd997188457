"""The NumPy programs of one head against the reference, in every dtype."""

import numpy as np
import pytest
from exact import raises
from hypothesis import given, strategies as st

from utils import checks, masks, reference, sizes
from utils.attention import numpy as numpy_attention

KEEP = masks.padding([7, 3], 7) & masks.causal(5, 7, "bottom_right")  # (b, 1, i, j)
EMPTY = KEEP & (np.arange(5) != 2)[:, None]                           # query 2 sees nothing
PER_HEAD = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.8


def close(got, expected):
    assert got.shape == expected.shape
    assert checks.difference(got, expected) <= checks.TOLERANCES[got.dtype.name]


def test_softmax_of_log_one_two_five_is_their_share():
    close(numpy_attention.softmax(np.log([[1.0, 2.0, 5.0]])), np.array([[0.125, 0.25, 0.625]]))


@pytest.mark.parametrize("shift", [-1e5, 1e5])
def test_softmax_does_not_overflow_and_equals_the_reference(shift):
    scores = sizes.qkv()[0]
    scores[0] += shift  # the other example stays where it is
    close(numpy_attention.softmax(scores), reference.softmax(scores))


def test_masked_softmax_of_a_row():
    scores = np.log([[1.0, 2.0, 5.0, 7.0], [1.0, 1.0, 1.0, 1.0]])
    keep = np.array([[True, True, True, False], [False, False, False, False]])
    close(numpy_attention.masked_softmax(scores, keep),
          np.array([[0.125, 0.25, 0.625, 0], [0, 0, 0, 0]]))
    close(numpy_attention.masked_softmax(scores), np.array([[1, 2, 5, 7], [3.75] * 4]) / 15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("keep", [None, KEEP, EMPTY, PER_HEAD], ids=["all", "keep", "empty", "h"])
def test_context_and_weights_equal_the_reference_in_every_dtype(dtype, keep):
    q, k, v = (x.astype(dtype) for x in sizes.qkv())
    results = numpy_attention.attention(q, k, v, keep)
    for got, expected in zip(results, reference.attention(q, k, v, keep), strict=True):
        assert got.dtype == dtype
        close(got, expected)


def test_a_query_without_keys_gives_zeros():
    for result in numpy_attention.attention(*sizes.qkv(), EMPTY):
        assert not result[:, :, 2].any()
        assert result[:, :, [0, 1, 3, 4]].any(axis=-1).all()


@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 4), st.integers(1, 6),
       st.integers(1, 6), st.floats(0, 1))
def test_any_sizes_and_any_mask_equal_the_reference(seed, batch, heads, n_q, n_k, share):
    q, k, v = sizes.qkv(seed, batch=batch, heads=heads, n_q=n_q, n_k=n_k)
    keep = np.random.default_rng(seed).random((batch, heads, n_q, n_k)) < share
    results = numpy_attention.attention(q, k, v, keep)
    for got, expected in zip(results, reference.attention(q, k, v, keep), strict=True):
        close(got, expected)


def test_what_padding_holds_changes_nothing_that_is_kept():
    q, k, v = sizes.qkv()
    hidden = k.copy(), v.copy()
    for x in hidden:
        x[1, :, 3:] = 1e6
    keep = masks.padding([7, 3], 7)
    for got, expected in zip(numpy_attention.attention(q, *hidden, keep),
                             numpy_attention.attention(q, k, v, keep), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_one_head_needs_no_axes():
    q, k, v = sizes.qkv()
    results = numpy_attention.attention(q[1, 1], k[1, 1], v[1, 1], KEEP[1, 0].tolist())
    for got, expected in zip(results, reference.attention(q, k, v, KEEP), strict=True):
        close(got, expected[1, 1])


def test_a_mask_that_is_not_bool_is_refused():
    with raises(TypeError, "keep must be bool (True = may attend), got an int64 mask of 0 and "
                           "1; most programs would *add* it to the scores, which masks nothing"):
        numpy_attention.attention(*sizes.qkv(), KEEP.astype(np.int64))


def test_additive_scores_are_computed_pair_by_pair():
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((2, 3, 7, 6))
    W_q, W_k, w_v = (rng.standard_normal(shape) for shape in ((4, 9), (6, 9), (9,)))
    scores = numpy_attention.additive_scores(q, k, W_q, W_k, w_v)
    expected = np.empty((2, 3, 5, 7))
    for b, h, i, j in np.ndindex(expected.shape):
        expected[b, h, i, j] = w_v @ np.tanh(W_q.T @ q[b, h, i] + W_k.T @ k[b, h, j])
    close(scores, expected)
