"""States that merge, and the tiled program against the reference: values, gradients, memory."""

import itertools
import math

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, settings, strategies as st

from utils import checks, masks, reference, sizes
from utils.attention.flash import cut, forward_tiles, merge, partial, tiled_attention, tiles
from utils.attention.torch import attention
from utils.checks.causal import with_causal
from utils.measure import timing
from utils.measure.counters import peak_bytes

N = 11                                              # no multiple of 2, 3, 4
KEEP = masks.padding([7, 3], 7)                     # (b, 1, 1, j)
EMPTY = KEEP & masks.causal(5, 7, "bottom_right") & (np.arange(5) != 2)[:, None]
PER_HEAD = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.6
ROWS = (np.arange(5) != 3)[:, None]                 # (i, 1): query 3 sees nothing
MASKS = {"none": None, "lengths": KEEP, "empty": EMPTY, "per head": PER_HEAD, "rows": ROWS,
         "keys": np.arange(7) % 3 > 0}
each_mask = pytest.mark.parametrize("keep", MASKS.values(), ids=MASKS)
each_tile = pytest.mark.parametrize("tile", [1, 2, 3, 4, 7, 50])


def tensors(arrays, dtype=torch.float64):
    return [torch.as_tensor(x, dtype=dtype).requires_grad_() for x in arrays]


def grad_out(*shape):
    return torch.as_tensor(np.random.default_rng(1).standard_normal(shape))


def empty_state(*shape, d_v=8):
    return (torch.zeros(*shape, d_v, dtype=torch.float64),
            torch.full(shape, -math.inf, dtype=torch.float64))


def gap(got, expected):
    """Return the largest difference of two states; an lse of -inf equals another."""
    return max(checks.difference(*pair) for pair in zip(got, expected, strict=True))


def split(keep, part):
    """Return the columns ``part`` of a mask that may be broadcast along the keys."""
    if keep is None or keep.shape[-1] == 1:
        return keep
    return keep[..., part]


# --- partial and merge

@each_mask
def test_partial_is_attention_with_the_log_of_its_denominator(keep):
    q, k, v = tensors(sizes.qkv())
    context, lse = partial(q, k, v, keep)
    assert checks.difference(context, reference.attention(q, k, v, keep)[0]) < 1e-12
    scores = reference.attention_scores(q, k, keep)
    with np.errstate(divide="ignore"):
        assert checks.difference(lse, np.log(np.exp(scores).sum(axis=-1))) < 1e-12


def test_a_query_that_sees_nothing_has_the_empty_state():
    context, lse = partial(*tensors(sizes.qkv()), EMPTY)
    assert not context[:, :, 2].any()
    assert (lse[:, :, 2] == -math.inf).all()
    assert lse[:, :, [0, 1, 3, 4]].isfinite().all()


def test_no_keys_at_all_are_the_empty_state():
    q, k, v = tensors(sizes.qkv())
    for keep in (None, np.ones((5, 0), dtype=bool)):
        context, lse = partial(q, k[:, :, :0], v[:, :, :0], keep)
        assert context.shape == (2, 3, 5, 8)
        assert not context.any()
        assert (lse == -math.inf).all()


def test_scores_of_thousands_do_not_overflow():
    q, k, v = tensors(sizes.qkv())
    parts = [partial(1000 * q, k[:, :, part], v[:, :, part])
             for part in (slice(3), slice(3, None))]
    assert gap(merge(*parts), partial(1000 * q, k, v)) < 1e-12
    assert parts[0][1].max() > 1000


def test_partial_refuses_a_mask_that_does_not_fit():
    q, k, v = tensors(sizes.qkv())
    with pytest.raises(ValueError, match="does not broadcast to the scores"):
        partial(q, k, v, np.ones((5, 6), dtype=bool))
    with pytest.raises(TypeError, match="keep must be bool"):
        partial(q, k, v, np.ones((5, 7)))


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from(list(MASKS)),
       st.lists(st.integers(0, 7), max_size=5))
def test_how_the_keys_are_split_and_in_which_order_they_merge_makes_no_difference(
        random, name, cuts):
    q, k, v = tensors(sizes.qkv())
    keep = MASKS[name]
    whole = partial(q, k, v, keep)
    edges = sorted([0, *cuts, 7])
    states = [partial(q, k[:, :, a:b], v[:, :, a:b], split(keep, slice(a, b)))
              for a, b in itertools.pairwise(edges)]       # some of them empty
    while len(states) > 1:                                 # any two, in any order
        random.shuffle(states)
        states.append(merge(states.pop(), states.pop()))
    assert gap(states[0], whole) < 1e-12


def test_merge_is_commutative_to_the_bit_and_associative_to_rounding():
    q, k, v = tensors(sizes.qkv())
    a, b, c = (partial(q, k[:, :, part], v[:, :, part], split(EMPTY, part))
               for part in (slice(3), slice(3, 4), slice(4, 7)))
    assert all(map(torch.equal, merge(a, b), merge(b, a)))
    assert gap(merge(merge(a, b), c), merge(a, merge(b, c))) < 1e-12


def test_the_empty_state_changes_nothing_not_by_a_bit():
    q, k, v = tensors(sizes.qkv())
    state, empty = partial(q, k, v, EMPTY), empty_state(2, 3, 5)
    for merged in (merge(state, empty), merge(empty, state)):
        assert all(map(torch.equal, merged, state))
    assert all(map(torch.equal, merge(empty, empty), empty))


def test_merge_leaves_its_arguments_alone():
    q, k, v = tensors(sizes.qkv())
    a, b = (partial(q, k[:, :, part], v[:, :, part]) for part in (slice(3), slice(3, 7)))
    before = [x.clone() for x in (*a, *b)]
    merge(a, b)
    assert all(map(torch.equal, before, (*a, *b)))


def test_gradients_pass_through_merge_and_meet_no_nan():
    q, k, v = inputs = tensors(sizes.qkv())
    direction = grad_out(2, 3, 5, 8)
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        state = merge(empty_state(2, 3, 5), empty_state(2, 3, 5))
        for j in range(7):
            part = slice(j, j + 1)
            state = merge(state, partial(q, k[:, :, part], v[:, :, part], split(EMPTY, part)))
        gradients = torch.autograd.grad(state[0], inputs, direction)
    expected = reference.attention_gradient(*inputs, direction, EMPTY)
    for got, want in zip(gradients, expected, strict=True):
        assert checks.difference(got, want) < 1e-12


def test_gradcheck_of_a_merged_state_context_and_lse():
    q, k, v = tensors(sizes.qkv(batch=1, heads=2, n_q=5, n_k=7, d_head=3, d_v=4))

    def halves(q, k, v):
        return merge(*(partial(q, k[:, :, part], v[:, :, part])
                       for part in (slice(3), slice(3, 7))))

    assert torch.autograd.gradcheck(halves, (q, k, v))


# --- tiles and their masks

@pytest.mark.parametrize("causal", [False, True])
@each_tile
def test_tiles_cover_what_is_seen_once_each_and_skip_the_future(tile, causal):
    n_k = N if causal else 8
    times, skipped = np.zeros((N, n_k), dtype=int), np.ones((N, n_k), dtype=bool)
    for rows, columns in tiles(N, n_k, tile, causal):
        assert max(rows.stop - rows.start, columns.stop - columns.start) <= tile
        assert masks.causal(N, n_k, "top_left")[rows, columns].any() or not causal
        times[rows, columns] += 1
        skipped[rows, columns] = False
    seen = masks.causal(N) if causal else np.ones((N, n_k), dtype=bool)
    assert (times[seen] == 1).all()
    assert times.max() == 1
    assert not (skipped & seen).any()


def test_a_causal_mask_of_sixteen_tiles_a_side_needs_136_of_256():
    assert len(list(tiles(16_384, 16_384, 1024, causal=True))) == 16 * 17 // 2
    assert len(list(tiles(16_384, 16_384, 1024))) == 256


@pytest.mark.parametrize("tile", [1, 2, 3, 4, 50])
@pytest.mark.parametrize("shape", [None, (1, 1), (N, 1), (1, N), (N, N), (2, 1, 1, N),
                                   (2, 3, N, N)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_the_masks_of_the_tiles_are_cut_from_the_whole(shape, causal, tile):
    keep = None
    if shape is not None:
        keep = torch.as_tensor(np.random.default_rng(3).random(shape) < 0.6)
    q = torch.zeros(2, 3, N, 4)
    whole = with_causal(keep, causal, q, q)
    whole = torch.ones(2, 3, N, N, dtype=torch.bool) if whole is None else whole.expand(2, 3, N, N)
    for rows, columns in tiles(N, N, tile, causal):
        part = cut(keep, causal, rows, columns)
        if part is None:
            assert whole[..., rows, columns].all()
        else:
            shape = whole[..., rows, columns].shape
            assert part.expand(shape).equal(whole[..., rows, columns])


def test_whole_tiles_below_the_diagonal_have_no_mask():
    kinds = [cut(None, True, *pair) is None for pair in tiles(N, N, 4, causal=True)]
    assert kinds == [False, True, False, True, True, False]


def test_a_mask_of_two_queries_and_two_keys_is_cut_too():
    keep = torch.tensor([[True, False], [False, True]])
    parts = [cut(keep, False, *pair).tolist() for pair in tiles(2, 2, 1)]
    assert parts == [[[True]], [[False]], [[False]], [[True]]]


def test_the_masks_of_the_tiles_stand_on_the_device_of_q():
    q = torch.zeros(2, 3, N, 4, device="meta", requires_grad=True)
    gradient, = torch.autograd.grad(tiled_attention(q, q, q, causal=True, tile=4).sum(), q)
    assert gradient.device.type == "meta"
    part = cut(None, True, slice(0, 4), slice(0, 4), "meta")
    assert part.device.type == "meta"


# --- the tiled program

@each_tile
def test_tiles_end_in_the_state_of_all_keys(tile):
    q, k, v = tensors(sizes.qkv())
    keep = torch.as_tensor(EMPTY)
    with torch.no_grad():
        assert gap(forward_tiles(q, k, v, keep, tile=tile), partial(q, k, v, keep)) < 1e-12


@each_mask
@each_tile
def test_context_and_gradients_equal_the_reference(keep, tile):
    inputs = tensors(sizes.qkv())
    direction = grad_out(2, 3, 5, 8)
    context = tiled_attention(*inputs, keep, tile=tile)
    assert checks.difference(context, reference.attention(*inputs, keep)[0]) < 1e-12
    gradients = torch.autograd.grad(context, inputs, direction)
    expected = reference.attention_gradient(*inputs, direction, keep)
    for got, want in zip(gradients, expected, strict=True):
        assert got.shape == want.shape
        assert checks.difference(got, want) < 1e-12


@pytest.mark.parametrize("keep", [None, masks.padding([N, 4], N), masks.window(N, N, 2),
                                  masks.padding([N, 0], N)], ids=["none", "lengths", "window", "0"])
@each_tile
def test_causal_equals_the_program_that_stores_the_weights(keep, tile):
    inputs = tensors(sizes.qkv(n_q=N, n_k=N))
    direction = grad_out(2, 3, N, 8)
    context = tiled_attention(*inputs, keep, causal=True, tile=tile)
    expected, _ = attention(*inputs, masks.causal(N) if keep is None else masks.causal(N) & keep)
    assert checks.difference(context, expected) < 1e-12
    both = [torch.autograd.grad(out, inputs, direction) for out in (context, expected)]
    for got, want in zip(*both, strict=True):
        assert checks.difference(got, want) < 1e-12


def test_a_hundred_words_in_tiles_of_16_to_1e_10():
    inputs = tensors(sizes.qkv(n_q=103, n_k=103))
    keep = masks.padding([103, 50], 103)
    direction = grad_out(2, 3, 103, 8)
    context = tiled_attention(*inputs, keep, causal=True, tile=16)
    full = keep & masks.causal(103)
    assert checks.difference(context, reference.attention(*inputs, full)[0]) < 1e-10
    gradients = torch.autograd.grad(context, inputs, direction)
    for got, want in zip(gradients, reference.attention_gradient(*inputs, direction, full),
                         strict=True):
        assert checks.difference(got, want) < 1e-10


@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck(causal):
    inputs = tensors(sizes.qkv(batch=1, heads=2, n_q=5, n_k=5 if causal else 7, d_head=3, d_v=4))
    keep = None if causal else EMPTY[1:]
    assert torch.autograd.gradcheck(
        lambda *x: tiled_attention(*x, keep, causal=causal, tile=2), inputs)


def test_a_query_without_keys_gives_zeros_and_a_zero_gradient():
    inputs = tensors(sizes.qkv())
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        context = tiled_attention(*inputs, EMPTY, tile=3)
        only_empty = torch.zeros_like(context)
        only_empty[:, :, 2] = 1.0
        gradients = torch.autograd.grad(context, inputs, only_empty)
    assert not context[:, :, 2].any()
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_other_dtypes_come_back_as_they_are(dtype):
    inputs = tensors(sizes.qkv(), dtype)
    context = tiled_attention(*inputs, KEEP, tile=3)
    assert context.dtype == dtype
    bound = checks.TOLERANCES[checks.dtype_name(context)]
    assert checks.difference(context, reference.attention(*inputs, KEEP)[0]) < bound
    context.sum().backward()
    assert all(x.grad.dtype == dtype and x.grad.isfinite().all() for x in inputs)


def test_scores_of_thousands_stay_finite_with_their_gradients():
    q, k, v = tensors(sizes.qkv())
    context = tiled_attention(1000 * q, k, v, tile=2)
    assert checks.difference(context, reference.attention(1000 * q, k, v)[0]) < 1e-12
    assert all(x.isfinite().all() for x in torch.autograd.grad(context.sum(), (q, k, v)))


def test_a_second_derivative_is_refused_rather_than_wrong():
    inputs = tensors(sizes.qkv())
    gradient, *_ = torch.autograd.grad(
        tiled_attention(*inputs).square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_nothing_is_kept_but_the_sides_the_output_and_lse():
    inputs = tensors(sizes.qkv(n_q=N, n_k=N))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape), lambda x: x):
        tiled_attention(*inputs, causal=True, tile=2)
    assert sorted(map(tuple, kept)) == sorted([(2, 3, N, 4), (2, 3, N, 4), (2, 3, N, 8),
                                               (2, 3, N, 8), (2, 3, N)])


def test_bad_input_is_refused():
    q, k, v = tensors(sizes.qkv())
    with raises(ValueError, "tile must be at least 1, got 0"):
        tiled_attention(q, k, v, tile=0)
    with raises(ValueError, "causal=True requires n_q == n_k, got n_q=5 and n_k=7: choose an "
                            "alignment with keep=masks.causal(n_q, n_k, align=...)"):
        tiled_attention(q, k, v, causal=True)
    with raises(ValueError, "k and v must have equally many keys (axis -2): k has 7, v has 6"):
        tiled_attention(q, k, v[:, :, :6])
    with raises(ValueError, "q, k and v must agree in the axes before the last two, got q "
                            "(2, 3, 5, 4), k (2, 1, 7, 4), v (2, 3, 7, 8)"):
        tiled_attention(q, k[:, :1], v)
    with pytest.raises(TypeError, match="keep must be bool"):
        tiled_attention(q, k, v, np.ones((5, 7)))


# --- memory

def train(n, program):
    """Return the bytes that the forward and the backward pass of n words take, at their peak."""
    q, k, v = inputs = [torch.randn(1, 1, n, 32, requires_grad=True) for _ in range(3)]
    return peak_bytes(lambda: program(q, k, v).sum().backward(), *inputs)


@pytest.mark.slow
def test_memory_grows_in_proportion_to_the_length_from_1024_to_16384():
    lengths = 1024 * 2 ** np.arange(5)
    taken = [train(n, lambda *x: tiled_attention(*x, causal=True, tile=256)) for n in lengths]
    assert np.polyfit(np.log(lengths), np.log(taken), 1)[0] < 1.1
    # a word more: its output, its three gradients, and three numbers a row, beside a few tiles
    assert (np.diff(taken) == 4 * (4 * 32 + 3) * np.diff(lengths)).all()
    naive = [train(n, lambda *x: attention(*x)[0]) for n in (1024, 2048)]
    assert math.log2(naive[1] / naive[0]) > 1.9            # the measure sees n × n


def test_smaller_tiles_take_less_memory():
    with torch.no_grad():
        forward = [peak_bytes(lambda n=n: tiled_attention(*torch.randn(3, 1, 1, 512, 8), tile=n))
                   for n in (64, 512)]
    both = [train(512, lambda *x, n=n: tiled_attention(*x, tile=n)) for n in (64, 512)]
    assert 3 * forward[0] < forward[1]
    assert 3 * both[0] < both[1]


def test_a_mask_of_lengths_is_never_expanded():
    keep = torch.ones(1, 1, 1, 2048, dtype=torch.bool)
    assert (train(2048, lambda *x: tiled_attention(*x, keep, tile=256))
            < train(2048, lambda *x: tiled_attention(*x, tile=256)) + 3 * 256 * 256 * 4)


@pytest.mark.slow
def test_a_fresh_process_holds_16384_words_in_a_fraction_of_one_copy_of_the_weights():
    code = ("import torch; from utils.attention.flash import tiled_attention as program\n"
            "x = torch.randn(3, 1, 1, {n}, 8, requires_grad=True)\n"
            "program(*x, causal=True, tile=512).sum().backward()")
    small, large = (timing.peak_memory(code.format(n=n)) for n in (512, 16_384))
    assert large - small < 1024 / 4                        # 16384² × 4 bytes are 1024 MiB
