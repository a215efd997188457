"""Every error by its whole message; comparisons that pass, and those that must not."""

import math
import re

import numpy as np
import pytest
import torch
from exact import raises

from utils import checks, frameworks, masks, sizes
from utils.checks import cache as cache_checks
from utils.checks.causal import with_causal

Q, K, _ = sizes.qkv()  # scores (b, h, i, j) = (2, 3, 5, 7)


# --- heads

@pytest.mark.parametrize(("d_model", "n_heads", "message"), [
    (10, 3, "d_model=10 is not divisible by n_heads=3 (remainder 1); nearest divisors: 1, 2, "
            "5, 10"),
    (512, 7, "d_model=512 is not divisible by n_heads=7 (remainder 1); nearest divisors: 1, 2, "
             "4, 8"),
    (12, 100, "d_model=12 is not divisible by n_heads=100 (remainder 12); nearest divisors: 3, "
              "4, 6, 12"),
    (7, 3, "d_model=7 is not divisible by n_heads=3 (remainder 1); nearest divisors: 1, 7"),
    (12, 0, "n_heads must be at least 1, got 0"),
    (12, -3, "n_heads must be at least 1, got -3")])
def test_heads_that_do_not_divide_name_the_nearest_that_do(d_model, n_heads, message):
    with raises(ValueError, message):
        checks.divisible(d_model, n_heads)
    with raises(ValueError, message):
        checks.heads(np.zeros((2, 5, d_model)), n_heads)


def test_heads_that_divide_give_the_features_of_one():
    assert checks.divisible(12, 3) == 4
    assert checks.heads(np.zeros((2, 5, 12)), 12) == 1
    assert checks.heads(torch.zeros(2, 5, 12), 2) == 6


@pytest.mark.parametrize("shape", [(5, 12), (2, 5, 3, 4)])
def test_heads_are_cut_from_three_axes(shape):
    with raises(ValueError, f"expected three axes (batch, length, d_model), got {shape}"):
        checks.heads(torch.zeros(shape), 3)


# --- masks

@pytest.mark.parametrize(("mask", "message"), [
    (np.array([[0.0, 1.0]]), "keep must be bool (True = may attend), got a float64 mask of 0 "
                             "and 1; most programs would *add* it to the scores, which masks "
                             "nothing"),
    (torch.tensor([[0, 1]]), "keep must be bool (True = may attend), got an int64 mask of 0 "
                             "and 1; most programs would *add* it to the scores, which masks "
                             "nothing"),
    ([[1, 0]], "keep must be bool (True = may attend), got an int64 mask of 0 and 1; most "
               "programs would *add* it to the scores, which masks nothing"),
    (torch.tensor([[0, -torch.inf]], dtype=torch.bfloat16), "keep must be bool (True = may "
                                                            "attend), got a bfloat16 mask of 0 "
                                                            "and -inf, which is an additive "
                                                            "mask; pass "
                                                            "utils.masks.from_additive(keep)"),
    (np.array([[0.0, -1e9]], dtype=np.float32),
     "keep must be bool (True = may attend), got float32"),
    (np.array([[0, 2]], dtype=np.uint8), "keep must be bool (True = may attend), got uint8")],
    ids=["float01", "int01", "list", "additive", "finite", "other"])
def test_masks_that_are_not_bool_are_refused(mask, message):
    with raises(TypeError, message):
        checks.boolean(mask)
    with raises(TypeError, message):
        checks.keep(mask, Q, K)


FIT = ("keep {0} does not broadcast to the scores (2, 3, 5, 7): axis {1} has size {2} in the "
       "scores, {3} in keep")


@pytest.mark.parametrize(("shape", "message"), [
    ((5, 8), FIT.format((5, 8), "j", 7, 8)),
    ((6, 7), FIT.format((6, 7), "i", 5, 6)),
    ((2, 4, 5, 7), FIT.format((2, 4, 5, 7), "h", 3, 4)),
    ((3, 3, 5, 7), FIT.format((3, 3, 5, 7), "b", 2, 3)),
    ((7, 5), FIT.format((7, 5), "j", 7, 5)
     + "; is it transposed? The axis of queries comes before that of keys"),
    ((2, 1, 7, 5), FIT.format((2, 1, 7, 5), "j", 7, 5)
     + "; is it transposed? The axis of queries comes before that of keys"),
    ((2, 7), FIT.format((2, 7), "i", 5, 2)
     + "; if it masks the keys of each example, pass keep[:, None, None]"),
    ((1, 2, 3, 5, 7), "keep (1, 2, 3, 5, 7) has more axes than the scores (2, 3, 5, 7)"),
    *(((n, 5, 7), f"keep ({n}, 5, 7) is ambiguous for scores (b, h, i, j) = (2, 3, 5, 7): if its "
       "first axis is the examples, pass keep[:, None]; if it is the heads, keep[None]")
      for n in (2, 3))], ids=str)
def test_masks_that_do_not_fit_name_the_axis(shape, message):
    for mask in (np.ones(shape, dtype=bool), torch.ones(shape, dtype=torch.bool)):
        with raises(ValueError, message):
            checks.keep(mask, Q, K)


def test_axes_of_one_head_are_named_too():
    with raises(ValueError, "keep (3, 5, 7) does not broadcast to the scores (2, 5, 7): axis b "
                            "has size 2 in the scores, 3 in keep"):
        checks.keep(np.ones((3, 5, 7), dtype=bool), Q[:, 0], K[:, 0])
    with raises(ValueError, "keep (2, 7) does not broadcast to the scores (2, 5, 7): axis i "
                            "has size 5 in the scores, 2 in keep; if it masks the keys of each "
                            "example, pass keep[:, None]"):
        checks.keep(np.ones((2, 7), dtype=bool), Q[:, 0], K[:, 0])
    with raises(ValueError, "keep (5, 8) does not broadcast to the scores (5, 7): axis j has "
                            "size 7 in the scores, 8 in keep"):
        checks.keep(np.ones((5, 8), dtype=bool), Q[0, 0], K[0, 0])
    with raises(ValueError, "keep (4, 1, 1, 1, 1, 1) does not broadcast to the scores (9, 9, "
                            "2, 3, 5, 7): axis … has size 9 in the scores, 4 in keep"):
        checks.keep(np.ones((4, 1, 1, 1, 1, 1), dtype=bool),
                    np.broadcast_to(Q, (9, 9, *Q.shape)), np.broadcast_to(K, (9, 9, *K.shape)))


@pytest.mark.parametrize("shape", [(), (7,), (5, 7), (1, 5, 7), (2, 1, 1, 7), (2, 3, 5, 1)],
                         ids=str)
def test_masks_that_fit_come_back_with_two_axes_or_more(shape):
    mask = np.random.default_rng(0).random(shape) < 0.5
    keep = checks.keep(mask, Q, K)
    assert keep.shape == (1, 1, *shape)[-max(2, len(shape)):]
    np.testing.assert_array_equal(keep, mask.reshape(keep.shape))
    tensor = checks.keep(mask, torch.as_tensor(Q), torch.as_tensor(K))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.tolist() == keep.tolist()


def test_masks_move_to_the_framework_and_the_device_of_q():
    mask = masks.padding([7, 3], 7)
    for given in (mask, torch.as_tensor(mask)):
        assert isinstance(checks.keep(given, Q, K), np.ndarray)
        on_cpu = checks.keep(given, torch.as_tensor(Q), torch.as_tensor(K))
        assert on_cpu.dtype == torch.bool
        assert on_cpu.tolist() == mask.tolist()
        elsewhere = checks.keep(given, torch.as_tensor(Q, device="meta"), torch.as_tensor(K))
        assert elsewhere.device.type == "meta"
    assert checks.keep(None, Q, K) is None


def test_boolean_leaves_tensors_and_arrays_alone():
    for mask in (masks.causal(3), torch.ones(3, dtype=torch.bool)):
        assert checks.boolean(mask) is mask
    assert checks.boolean([[True, False]]).tolist() == [[True, False]]


def test_a_subclass_of_a_tensor_gets_a_mask_of_its_framework():
    class Mine(torch.Tensor):
        pass

    q, k = torch.ones(2, 4).as_subclass(Mine), torch.ones(3, 4)
    assert isinstance(checks.keep(np.ones((2, 3), bool), q, k), torch.Tensor)


def test_a_tensor_of_tensorflow_gets_a_mask_of_tensorflow():
    tf = frameworks.tensorflow()
    mask = masks.causal(3)
    keep = checks.keep(mask, tf.zeros((3, 4)), tf.zeros((3, 4)))
    assert tf.is_tensor(keep)
    np.testing.assert_array_equal(keep, mask)


def test_boolean_copies_what_pytorch_would_not_take():
    frozen = masks.causal(3)
    frozen.setflags(write=False)
    for mask in (frozen, np.broadcast_to(frozen, (2, 3, 3)), masks.causal(3)[::-1]):
        ready = checks.boolean(mask)
        assert ready.flags.writeable
        assert ready.flags.c_contiguous
        np.testing.assert_array_equal(ready, mask)


def test_q_and_k_of_different_width_are_refused():
    with raises(ValueError, "q and k must have the same head dimension (last axis): q has 4, k "
                            "has 2"):
        checks.keep(None, Q, K[..., :2])


def test_per_head_gives_every_head_a_mask():
    q, k = np.zeros((2, 5, 12)), np.zeros((2, 7, 12))
    keep = masks.padding([7, 3], 7)
    d_head, full = checks.per_head(q, k, k, 3, keep)
    assert d_head == 4
    np.testing.assert_array_equal(full, np.broadcast_to(keep, (2, 3, 5, 7)))
    d_head, full = checks.per_head(*map(torch.as_tensor, (q, k, k)), 2, None)
    assert d_head == 6
    assert full.tolist() == np.ones((2, 2, 5, 7), dtype=bool).tolist()


@pytest.mark.parametrize(("widths", "name", "width"), [((12, 9, 12), "k", 9),
                                                       ((12, 12, 6), "v", 6)])
def test_per_head_refuses_sides_of_different_width(widths, name, width):
    q, k, v = (np.zeros((2, n, width)) for n, width in zip((5, 7, 7), widths, strict=True))
    with raises(ValueError, "q, k and v must have the same d_model (last axis): q has 12, "
                            f"{name} has {width}"):
        checks.per_head(q, k, v, 3)


def test_per_head_takes_a_parameter():
    q, k = torch.nn.Parameter(torch.zeros(2, 5, 12)), torch.zeros(2, 7, 12)
    assert checks.per_head(q, k, k, 3)[1].tolist() == torch.ones(2, 3, 5, 7).bool().tolist()


def test_per_head_refuses_a_mask_that_does_not_fit():
    q = np.zeros((2, 5, 12))
    with raises(ValueError, "keep (2, 5, 5) is ambiguous for scores (b, h, i, j) = (2, 3, 5, "
                            "5): if its first axis is the examples, pass keep[:, None]; if it "
                            "is the heads, keep[None]"):
        checks.per_head(q, q, q, 3, np.ones((2, 5, 5), dtype=bool))


@pytest.mark.parametrize(("n_q", "n_k", "align"), [(5, 7, None), (5, 5, "left"), (5, 7, "left")])
def test_a_corner_must_be_named_and_known(n_q, n_k, align):
    with raises(ValueError, "align must be 'top_left' or 'bottom_right', or None if n_q == n_k, "
                            f"got align={align!r} with n_q={n_q} and n_k={n_k}"):
        checks.corner(n_q, n_k, align)


@pytest.mark.parametrize("align", ["top_left", "bottom_right"])
def test_a_corner_that_is_named_is_fine(align):
    checks.corner(5, 7, align)
    checks.corner(5, 5, None)


@pytest.mark.parametrize("lengths", [[3, 8], [-1, 3], [[3, 4]], 3, [2.5, 3.0], [True, False]])
def test_lengths_that_cannot_be_are_refused(lengths):
    with raises(ValueError, f"lengths must be integers (b,) in 0 .. n_k=7, got {lengths}"):
        checks.lengths(lengths, 7)


@pytest.mark.parametrize("lens", [[7, 0], [[1, 2, 3, 4, 5], [0, 0, 7, 7, 7]],
                                  np.array([7, 3], dtype=np.uint8)], ids=["b", "b i", "uint8"])
def test_valid_lens_of_each_example_or_query_are_accepted(lens):
    checks.valid_lens(lens, np.zeros((2, 5, 7)))


@pytest.mark.parametrize(("lens", "error", "message"), [
    ([7.0, 3.0], TypeError, "valid_lens must be integers, the number of keys that each example "
                            "or query may attend to, got float64"),
    ([[True] * 7] * 2, TypeError, "valid_lens must be integers, the number of keys that each "
                                  "example or query may attend to, got bool; for a mask, pass "
                                  "keep.sum(axis=-1)"),
    ([7, 3, 1], ValueError, "valid_lens must be (2,), one length for each example, or (2, 5), "
                            "one for each query, got (3,) for scores (2, 5, 7)"),
    ([7], ValueError, "valid_lens must be (2,), one length for each example, or (2, 5), one "
                      "for each query, got (1,) for scores (2, 5, 7)"),
    (7, ValueError, "valid_lens must be (2,), one length for each example, or (2, 5), one for "
                    "each query, got () for scores (2, 5, 7)"),
    (np.ones((2, 5, 7), int), ValueError, "valid_lens must be (2,), one length for each "
                                          "example, or (2, 5), one for each query, got (2, 5, "
                                          "7) for scores (2, 5, 7)"),
    ([7, 8], ValueError, "valid_lens must be in 0 .. n_k=7, got [7, 8]"),
    ([-1, 3], ValueError, "valid_lens must be in 0 .. n_k=7, got [-1, 3]")],
    ids=["float", "bool", "too many", "too few", "one", "mask", "too long", "negative"])
def test_valid_lens_that_cannot_be_are_refused(lens, error, message):
    with raises(error, message):
        checks.valid_lens(lens, np.zeros((2, 5, 7)))


def test_lengths_come_back_as_an_array():
    assert checks.lengths((0, 7, 3), 7).tolist() == [0, 7, 3]
    assert isinstance(checks.lengths([1], 7), np.ndarray)


# --- the sequence first

def test_of_a_mask_of_bools_no_number_is_asked():
    mask = torch.empty(5, 7, 2, dtype=torch.bool, device="meta")
    assert checks.sequence_mask(mask, (5, 2, 12), (7, 2, 12)).device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_a_tensor_of_0_and_1_becomes_a_tensor_of_bools(dtype):
    mask = torch.as_tensor(np.random.default_rng(0).random((5, 7, 2)) < 0.5)
    keep = checks.sequence_mask(mask.to(dtype), (5, 2, 12), (7, 2, 12))
    assert isinstance(keep, torch.Tensor)
    assert keep.equal(mask)


# --- positions in a cache

@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,), (2, 0)], ids=str)
def test_the_last_position_of_each_text_is_minus_1_without_any(shape):
    positions = torch.arange(math.prod(shape)).reshape(shape)
    last = {(3,): [2], (2, 3): [[2], [5]], (0,): [-1], (2, 0): [[-1], [-1]]}[shape]
    assert cache_checks.latest(positions).tolist() == last


def test_positions_that_are_no_integers_say_how_to_count():
    with raises(TypeError, "positions must be integers, -1 for padding, got torch.bool; from a "
                           "bool mask real (b, i), True where there is a token, compute "
                           "(real.cumsum(-1) - 1).masked_fill(~real, -1)"):
        cache_checks.positions(torch.ones(5, dtype=torch.bool), 2, 5)


K_V = torch.zeros(2, 3, 5, 4)  # keys, and values


@pytest.mark.parametrize(("k", "v", "start", "message"), [
    ((2, 3, 1, 4), (2, 3, 2, 4), 5, "keys and values must have equal shapes except for the last "
                                    "axis, got (2, 3, 1, 4) and (2, 3, 2, 4)"),
    ((3, 3, 1, 4), (3, 3, 1, 4), 5, "the cache holds keys (b, h, j, d) = (2, 3, 5, 4), got new "
                                    "keys (3, 3, 1, 4): only j may differ; a new batch of "
                                    "sequences needs a new cache"),
    ((2, 3, 1, 4), (2, 3, 1, 4), 4, "got a new token at position 4, but the cache already holds "
                                    "position 4: new positions must follow those in the cache")])
def test_what_does_not_fit_the_cache_is_told_with_the_cause(k, v, start, message):
    with raises(ValueError, message):
        cache_checks.fits((K_V, K_V, torch.arange(5)), torch.zeros(k), torch.zeros(v),
                          torch.arange(start, start + k[2]))


def test_shared_heads_are_told_with_all_shapes():
    with raises(ValueError, "q, k and v must agree in the axes before the last two, got q "
                            "(2, 3, 5, 4), k (1, 3, 5, 4), v (1, 3, 5, 4)"):
        cache_checks.shared(K_V, K_V[:1], K_V[:1])


def test_too_little_room_says_what_to_do():
    with raises(ValueError, "the cache has room=5, but holds 4 columns and got 2 new ones: create "
                            "it with room=6 or more, or, if it has a window, pass smaller chunks"):
        cache_checks.fits_room(5, 4, 2)


def test_a_gradient_is_refused_with_a_way_out():
    with raises(ValueError, "k or v requires a gradient, but this cache overwrites values that the "
                            "backward pass would need: decode under torch.no_grad(), or use "
                            "utils.attention.cache.Cache"):
        cache_checks.not_recorded(K_V, K_V.clone().requires_grad_())


# --- a causal mask

def test_a_causal_mask_needs_no_axis_of_heads():
    for q in (K_V, K_V[0], K_V[0, 0]):
        assert with_causal(None, True, q, q).equal(torch.ones(5, 5).tril().bool())


# --- any framework

def test_names_of_dtypes():
    assert checks.dtype_name(np.zeros(1, np.float16)) == "float16"
    assert checks.dtype_name(torch.zeros(1, dtype=torch.bfloat16)) == "bfloat16"
    assert checks.dtype_name([1.0, 2.0]) == "float64"
    assert checks.dtype_name([True]) == "bool"


def test_to_numpy_keeps_the_numbers():
    x = torch.tensor([1.5, -2.0], requires_grad=True)
    for tensor, dtype in ((x, np.float32), (x.bfloat16(), np.float32), (x.half(), np.float16)):
        assert checks.to_numpy(tensor).tolist() == [1.5, -2.0]
        assert checks.to_numpy(tensor).dtype == dtype
    assert checks.to_numpy([1, 2]).tolist() == [1, 2]


# --- comparing

def test_shapes_that_fit_give_the_sizes():
    scores = Q @ K.swapaxes(-1, -2)
    assert checks.check_shapes("b h i d, b h j d -> b h i j", Q, torch.as_tensor(K), scores) == {
        "b": 2, "h": 3, "i": 5, "d": 4, "j": 7}
    assert checks.check_shapes("2 h 5 4", Q) == {"h": 3}
    assert checks.check_shapes("", np.float64(1.0)) == {}


@pytest.mark.parametrize(("pattern", "arrays", "message"), [
    ("b i d, b j d", (Q[:, 0], K[:, 0, :, :3]),
     "array 2 must be (b, j, d), got (2, 7, 3): axis d has size 3 here, and 4 in an earlier "
     "array"),
    ("b b", (np.zeros((2, 3)),), "array 1 must be (b, b), got (2, 3): axis b has size 3 here, "
                                 "and 2 in an earlier array"),
    ("b 4", (np.zeros((2, 3)),), "array 1 must be (b, 4), got (2, 3): axis 4 has size 3 here, "
                                 "and 4"),
    ("b i", (np.zeros(3),), "array 1 must be (b, i), got (3,)"),
    ("b", (np.zeros((3, 2)),), "array 1 must be (b), got (3, 2)"),
    ("b, b", (np.zeros(3),), "the pattern 'b, b' has 2 arrays, got 1")])
def test_shapes_that_do_not_fit_name_the_axis_and_both_sizes(pattern, arrays, message):
    with raises(ValueError, message):
        checks.check_shapes(pattern, *arrays)


def test_difference_is_relative_above_one_and_absolute_below():
    assert checks.difference([0.25, 0.5], [0.25, 0.75]) == 0.25
    assert checks.difference([200.0, 50.0], [200.0, 100.0]) == 0.25
    assert checks.difference(torch.tensor([3.0], dtype=torch.bfloat16), [2.0]) == 0.5


def test_difference_of_what_is_not_finite():
    inf, nan = np.inf, np.nan
    assert checks.difference([inf, -inf, nan, 1.0], [inf, -inf, nan, 1.5]) == 0.5 / 1.5
    assert checks.difference([inf, 4.0], [-inf, 4.0]) == inf
    assert checks.difference([1.0], [inf]) == inf
    assert np.isnan(checks.difference([nan, 1.0], [1.0, 1.0]))
    assert np.isnan(checks.difference([1.0, 1.0], [1.0, nan]))
    assert checks.difference(np.zeros(0), np.zeros(0)) == 0.0
    with np.errstate(over="raise"):
        assert checks.difference([1e308], [-1e308]) == inf


@pytest.mark.parametrize(("name", "tolerance"), checks.TOLERANCES.items())
def test_close_arrays_print_shape_dtype_and_tolerance(name, tolerance, capsys):
    one = torch.ones(2, 3, dtype=getattr(torch, name))
    checks.check_close(one, torch.full((2, 3), 1 + 0.9 * tolerance, dtype=torch.float64))
    assert re.fullmatch(rf"equal: \(2, 3\) {name}, largest difference within {tolerance:.0e}\n",
                        capsys.readouterr().out)
    with pytest.raises(AssertionError, match=rf"tolerance {tolerance:.0e} \({name}\)"):
        checks.check_close(one, torch.full((2, 3), 1 + 1.1 * tolerance, dtype=torch.float64))


def test_tolerances_are_those_of_the_course():
    assert checks.TOLERANCES == {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3,
                                 "bfloat16": 2e-2}


def test_integers_and_bools_must_be_equal(capsys):
    checks.check_close([1, 2], [1, 2])
    assert capsys.readouterr().out == "equal: (2,) int64, largest difference within 0e+00\n"
    with raises(AssertionError, "not equal: largest difference 5.0e-01, tolerance 0e+00 "
                                "(int64); at (1,) got 2, expected 1"):
        checks.check_close([2, 2], [2, 1])
    with raises(AssertionError, "not equal: largest difference 1.0e+00, tolerance 0e+00 "
                                "(bool); at (0,) got 1, expected 0"):
        checks.check_close([True], [False])


def test_arrays_that_differ_say_how_much_and_where():
    expected = np.zeros((2, 3))
    got = expected.copy()
    got[1, 2], got[0, 1] = -0.5, 0.25
    with raises(AssertionError, "not equal: largest difference 5.0e-01, tolerance 1e-12 "
                                "(float64); at (1, 2) got -0.5, expected 0"):
        checks.check_close(got, expected)
    checks.check_close(got, expected, tolerance=0.5)
    with raises(AssertionError, "not equal: largest difference 5.0e-01, tolerance 4e-01 "
                                "(float64); at (1, 2) got -0.5, expected 0"):
        checks.check_close(got, expected, tolerance=0.4)
    with raises(AssertionError, "not equal: largest difference 1.0e+00, tolerance 1e-12 (float64); "
                                "at (1,) got 0.5, expected -0.5"):
        checks.check_close([0.5, 0.5], [0.25, -0.5])


def test_what_is_not_finite_is_found():
    with raises(AssertionError, "not equal: largest difference nan, tolerance 1e-12 (float64); "
                                "at (2,) got nan, expected 1"):
        checks.check_close([np.inf, 7.0, np.nan], [np.inf, 1.0, 1.0])
    with raises(AssertionError, "not equal: largest difference inf, tolerance 1e-12 (float64); "
                                "at (0,) got inf, expected -inf"):
        checks.check_close([np.inf, 7.0], [-np.inf, 1.0])


def test_arrays_of_other_shapes_are_not_compared():
    with raises(AssertionError, "shapes differ: got (2, 1), expected (2,)"):
        checks.check_close(np.ones((2, 1)), np.ones(2))


@pytest.mark.parametrize("inside", [True, False])
def test_a_layer_takes_another_dtype_only_where_pytorch_chooses_dtypes_on_that_device(inside):
    linear, x = torch.nn.Linear(4, 12), torch.zeros(2, 5, 4, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
        if inside:
            checks.inputs(linear, x)
        else:
            with raises(TypeError, "x is bfloat16, but the layer's weights are float32: convert one"
                                   " of them"):
                checks.inputs(linear, x)


@pytest.mark.parametrize("inside", [True, False])
def test_q_and_k_of_two_dtypes_are_fine_only_where_pytorch_converts_them(inside):
    q, k = torch.ones(2, 5, 4), torch.ones(2, 7, 4).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
        if inside:
            checks.sides(q, k)
        else:
            with raises(TypeError, "q is float32, but k is bfloat16: convert one of them"):
                checks.sides(q, k)
