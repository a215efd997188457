"""The teaching sizes differ, and the random data has the shapes and the spread it promises."""

from itertools import combinations

import numpy as np
import pytest

from utils import sizes

SEEDS = range(200)


def test_no_two_sizes_are_equal():
    taught = {name: getattr(sizes, name) for name in ("BATCH", "N_Q", "N_K", "HEADS", "D_HEAD",
                                                       "D_V", "D_MODEL", "D_IN", "D_OUT")}
    for (name, size), (other_name, other) in combinations(taught.items(), 2):
        assert size != other, f"{name} and {other_name} are both {size}"


def test_sizes_are_those_of_the_notation_page():
    assert (sizes.BATCH, sizes.N_Q, sizes.N_K, sizes.HEADS, sizes.D_HEAD) == (2, 5, 7, 3, 4)
    assert (sizes.D_IN, sizes.D_MODEL, sizes.D_OUT, sizes.D_V) == (11, 12, 13, 8)
    assert (sizes.GROUPED_HEADS, sizes.KV_HEADS) == (6, 2)
    assert sizes.D_MODEL == sizes.HEADS * sizes.D_HEAD
    assert sizes.GROUPED_HEADS % sizes.KV_HEADS == 0


def test_qkv_has_the_shapes_asked_for():
    assert [x.shape for x in sizes.qkv()] == [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 8)]
    q, k, v = sizes.qkv(batch=1, heads=6, kv_heads=2, n_q=9, n_k=10, d_head=11, d_v=13)
    assert (q.shape, k.shape, v.shape) == ((1, 6, 9, 11), (1, 2, 10, 11), (1, 2, 10, 13))


def test_sides_have_the_shapes_asked_for():
    assert [x.shape for x in sizes.sides()] == [(2, 5, 11), (2, 7, 11)]
    assert [x.shape for x in sizes.sides(batch=3, n_q=4, n_k=6, d_in=8)] == [(3, 4, 8), (3, 6, 8)]


def test_weights_have_the_shapes_asked_for():
    shapes = {name: x.shape for name, x in sizes.weights(d_in=5, d_model=6, d_out=7).items()}
    assert shapes == {"W_q": (5, 6), "W_k": (5, 6), "W_v": (5, 6), "W_o": (6, 7),
                      "b_q": (6,), "b_k": (6,), "b_v": (6,), "b_o": (7,)}
    assert sizes.weights()["W_q"].shape == (11, 12)
    assert sizes.weights()["W_o"].shape == (12, 13)


def test_weights_without_bias_keep_the_matrices_and_zero_the_rest():
    with_bias, without = sizes.weights(3), sizes.weights(3, bias=False)
    for name in with_bias:
        if name.startswith("W"):
            np.testing.assert_array_equal(without[name], with_bias[name])
        else:
            assert not without[name].any()
            assert with_bias[name].all()


@pytest.mark.parametrize("make", [sizes.qkv, sizes.sides, lambda seed: tuple(
    sizes.weights(seed).values()), lambda seed: (sizes.lengths(seed, batch=9, n_k=50),)])
def test_the_same_seed_gives_the_same_data_and_another_seed_other_data(make):
    for first, again, other in zip(make(1), make(1), make(2), strict=True):
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()


def test_no_two_arrays_of_one_call_share_their_numbers():
    arrays = [*sizes.qkv(), *sizes.weights().values(), sizes.sides()[1]]
    for group in (sizes.qkv(), sizes.sides(), sizes.weights().values()):
        for a, b in combinations(group, 2):
            assert not np.isin(a, b).any()
    assert all(x.dtype == np.float64 for x in arrays)


@pytest.mark.parametrize(("x", "variance"), [
    *((x, 1.0) for x in sizes.qkv(batch=9, n_q=50, n_k=51, d_head=52, d_v=53)),
    *((x, 1.0) for x in sizes.sides(n_q=200, n_k=201, d_in=52)),
    (sizes.weights(d_in=300, d_model=200)["W_k"], 1 / 300),
    (sizes.weights(d_model=300, d_out=200)["W_o"], 1 / 300),
    (sizes.weights(d_model=20_000, d_in=1)["b_v"], 1.0)])
def test_data_is_centred_and_has_the_variance_promised(x, variance):
    assert abs(x.mean()) < 5 * np.sqrt(variance / x.size)
    assert abs(x.var() / variance - 1) < 5 * np.sqrt(2 / x.size)


def test_one_length_is_full_and_the_others_are_shorter_but_not_empty():
    drawn = np.array([sizes.lengths(seed, batch=4, n_k=7) for seed in SEEDS])
    assert ((drawn == 7).sum(axis=1) == 1).all()
    assert set(drawn[drawn != 7].tolist()) == set(range(1, 7))
    assert set((drawn == 7).argmax(axis=1).tolist()) == set(range(4))
    assert drawn.dtype.kind == "i"


def test_lengths_of_a_single_key_are_one():
    assert sizes.lengths(n_k=1).tolist() == [1, 1]
