"""Where a word stands: clocks, RoPE, ALiBi and what relative positions add to scores."""

import math

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, settings, strategies as st

from utils import masks, reference, sizes
from utils.attention.positions import (
    alibi_bias,
    alibi_slopes,
    check_angles,
    relative_scores,
    relative_shift,
    rotary,
    rotate,
    sinusoidal,
    transformer_xl_scores,
)
from utils.checks import difference

Q, K, V = map(torch.as_tensor, sizes.qkv(d_head=8))         # (2, 3, 5, 8), (2, 3, 7, 8)
I_POS = torch.tensor([3.0, 0.0, 11.0, 11.0, 40.0], dtype=torch.float64)
J_POS = torch.tensor([0.0, 2.0, 3.0, 9.0, 11.0, 20.0, 41.0], dtype=torch.float64)


def turned_by_hand(x, position, pairs, base=10_000.0):
    """Turn one word x (d,), feature by feature."""
    out, d = list(x), 2 * len(pairs)
    for n, (one, other) in enumerate(pairs):
        angle = position / base ** (2 * n / d)
        out[one] = x[one] * math.cos(angle) - x[other] * math.sin(angle)
        out[other] = x[one] * math.sin(angle) + x[other] * math.cos(angle)
    return out


def pairs_of(d, interleaved):
    return [(2 * n, 2 * n + 1) if interleaved else (n, n + d // 2) for n in range(d // 2)]


def test_sines_stand_in_even_features_and_cosines_in_odd_ones_as_in_the_paper():
    got = sinusoidal(J_POS, 6, base=100.0)
    expected = [[f(p / 100 ** (2 * n / 6)) for n in range(3) for f in (math.sin, math.cos)]
                for p in J_POS.tolist()]
    assert got.dtype == torch.float64
    assert difference(got, expected) < 1e-14


def test_the_usual_base_is_ten_thousand():
    one = torch.tensor([7.0], dtype=torch.float64)
    assert math.isclose(sinusoidal(one, 4)[0, 2], math.sin(7 / 100), rel_tol=1e-14)
    assert math.isclose(rotary(one, 4)[1][0, 1], math.sin(7 / 100), rel_tol=1e-14)


def test_a_shift_of_sinusoids_is_one_rotation_and_their_products_know_the_distance_alone():
    here, there = sinusoidal(J_POS, 12), sinusoidal(J_POS + 100, 12)
    cos, sin = rotary(torch.tensor([100.0], dtype=torch.float64), 12)
    assert difference(rotate(here, cos, -sin, interleaved=True), there) < 1e-12
    assert difference(there @ there.T, here @ here.T) < 1e-12


@pytest.mark.parametrize(("given", "returned"), [
    (torch.int64, torch.float32), (torch.int32, torch.float32), (torch.float32, torch.float32),
    (torch.float64, torch.float64), (torch.float16, torch.float16),
    (torch.bfloat16, torch.bfloat16)])
def test_angles_have_the_dtype_of_floating_positions_else_float32(given, returned):
    positions = torch.tensor([[0, 3, 5], [2, 2, 1]], dtype=given)
    cos, sin = rotary(positions, 10)
    assert cos.dtype == sin.dtype == sinusoidal(positions, 10).dtype == returned
    assert cos.shape == sin.shape == (2, 3, 5)
    exact = rotary(positions.double(), 10)
    assert torch.equal(cos, exact[0].to(returned))
    assert torch.equal(sin, exact[1].to(returned))


def test_angles_far_away_are_as_exact_as_near():
    far = torch.tensor([10_000_019])
    angle = 10_000_019 / 10_000 ** (2 * np.arange(8) / 16)
    assert difference(rotary(far, 16)[0][0], np.cos(angle)) < 1e-7
    assert difference(rotary(far, 16)[1][0], np.sin(angle)) < 1e-7


def test_angles_stand_on_the_device_of_the_positions():
    cos, sin = rotary(torch.arange(3, device="meta"), 4)
    assert cos.device.type == sin.device.type == "meta"


@pytest.mark.parametrize("function", [rotary, sinusoidal])
def test_an_odd_number_of_features_has_no_pairs(function):
    with raises(ValueError, "d must be even, because dimensions are rotated in pairs, got d=7"):
        function(torch.arange(3), 7)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope_is_a_turn_of_every_pair_by_hand(interleaved):
    got = rotate(Q, *rotary(I_POS, 8), interleaved)
    for b, h, i in np.ndindex(2, 3, 5):
        expected = turned_by_hand(Q[b, h, i].tolist(), I_POS[i].item(), pairs_of(8, interleaved))
        assert difference(got[b, h, i], expected) < 1e-14


@pytest.mark.parametrize("interleaved", [False, True])
def test_only_as_many_features_turn_as_there_are_angles_for(interleaved):
    got = rotate(Q, *rotary(I_POS, 6), interleaved)
    assert torch.equal(got[..., 6:], Q[..., 6:])
    assert torch.equal(got[..., :6], rotate(Q[..., :6], *rotary(I_POS, 6), interleaved))


@pytest.mark.parametrize("interleaved", [False, True])
def test_examples_may_stand_at_positions_of_their_own(interleaved):
    positions = torch.stack((I_POS, I_POS.flip(0) + 7))      # (b, i)
    cos, sin = rotary(positions, 8)
    got = rotate(Q, cos[:, None], sin[:, None], interleaved)
    for b in range(2):
        alone = rotate(Q[b], *rotary(positions[b], 8), interleaved)
        assert torch.equal(got[b], alone)


@given(st.integers(0, 2 ** 20), st.booleans(), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_scores_of_rope_know_the_distance_alone(shift, interleaved, pairs):
    def scores(shift):
        q, k = (rotate(x, *rotary(p + shift, 2 * min(pairs, 4)), interleaved)
                for x, p in ((Q, I_POS), (K, J_POS)))
        return q @ k.mT
    assert difference(scores(shift), scores(0)) < 1e-8


def test_neighbours_and_halves_are_one_scheme_after_a_reordering():
    order = torch.cat((torch.arange(0, 8, 2), torch.arange(1, 8, 2)))
    angles = rotary(I_POS, 8)
    assert torch.equal(rotate(Q, *angles, interleaved=True)[..., order],
                       rotate(Q[..., order], *angles))


def test_rotate_keeps_dtype_lengths_and_argument_and_lets_gradients_through():
    x, before = Q.to(torch.bfloat16), Q.to(torch.bfloat16)
    assert rotate(x, *rotary(torch.arange(5), 8)).dtype == torch.bfloat16
    assert torch.equal(x, before)
    assert difference(rotate(Q, *rotary(I_POS, 8)).norm(dim=-1), Q.norm(dim=-1)) < 1e-14
    x = Q.clone().requires_grad_()
    probe = torch.randn(Q.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    cos, sin = rotary(I_POS, 8)
    (rotate(x, cos, sin) * probe).sum().backward()
    assert difference(x.grad, rotate(probe, cos, -sin)) < 1e-14


@pytest.mark.parametrize(("shape", "sin_shape", "words"), [
    ((5, 4), (5, 3), "cos and sin must have one shape, got (5, 4) and (5, 3)"),
    ((5, 6), (5, 6), "cos has 6 angles, but x has 8 dimensions, that is 4 pairs: call "
                     "rotary(positions, d) with d = d_head"),
    ((1, 5, 6), (1, 5, 6), "cos has 6 angles, but x has 8 dimensions, that is 4 pairs: call "
                           "rotary(positions, d) with d = d_head"),
    ((3, 5, 4), (3, 5, 4), "cos (3, 5, 4) is ambiguous for x (2, 3, 5, 8): if its first axis "
                           "is the examples, pass cos[:, None]; if it is the heads, cos[None]; "
                           "likewise sin"),
    ((7, 4), (7, 4), "cos (7, 4) does not broadcast to x (2, 3, 5, 8): all axes of cos but the "
                     "last must be those of x, or 1"),
    ((2, 2, 3, 5, 4), (2, 2, 3, 5, 4), "cos (2, 2, 3, 5, 4) does not broadcast to x (2, 3, 5, "
                                       "8): all axes of cos but the last must be those of x, or "
                                       "1")])
def test_angles_that_do_not_fit_are_refused(shape, sin_shape, words):
    for function in (rotate, check_angles):
        with raises(ValueError, words):
            function(Q, torch.ones(shape), torch.ones(sin_shape))


@pytest.mark.parametrize("shape", [(5, 4), (1, 4), (4,), (2, 1, 5, 4), (1, 5, 3), (2, 3, 5, 4)])
def test_angles_that_broadcast_are_taken(shape):
    cos = torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert check_angles(Q, cos, cos) is None
    assert rotate(Q, cos, cos).shape == Q.shape


def test_fewer_words_than_angles_are_refused_not_copied():
    with pytest.raises(ValueError, match=r"^cos \(5, 4\) does not broadcast to x \(2, 3, 1, 8\)"):
        rotate(Q[:, :, :1], *rotary(I_POS, 8))


def relative_by_hand(table, offsets):
    """Return q · table row, (b, h, i, j), number by number."""
    reach, out = (len(table) - 1) // 2, np.zeros((2, 3, 5, 7))
    for b, h, i, j in np.ndindex(out.shape):
        row = min(max(int(offsets[i][j]), -reach), reach) + reach
        out[b, h, i, j] = sum(a * c for a, c in zip(Q[b, h, i].tolist(), table[row].tolist(),
                                                    strict=True))
    return out


@pytest.mark.parametrize("reach", [0, 2, 9])
def test_shaw_s_term_is_the_query_times_the_row_of_the_clipped_offset(reach):
    table = torch.as_tensor(np.random.default_rng(reach).standard_normal((2 * reach + 1, 8)))
    offsets = masks.offsets(5, 7, "bottom_right")
    expected = relative_by_hand(table, offsets)
    assert difference(relative_scores(Q, table, offsets), expected) < 1e-14
    assert difference(relative_scores(Q, table, torch.as_tensor(offsets)), expected) < 1e-14


def test_shaw_s_table_learns_in_the_rows_that_occur():
    table = torch.zeros(9, 8, dtype=torch.float64, requires_grad=True)
    (relative_scores(Q, table, masks.offsets(5, 7, "top_left")) ** 2).sum().backward()
    assert not table.grad.any()
    probe = torch.as_tensor(np.random.default_rng(4).standard_normal((2, 3, 5, 7)))
    (relative_scores(Q, table, masks.offsets(5, 7, "top_left") % 2) * probe).sum().backward()
    assert (table.grad != 0).any(dim=1).tolist() == [n in (4, 5) for n in range(9)]


def test_a_table_has_an_odd_number_of_rows():
    with raises(ValueError, "table must have an odd number of rows, 2 * reach + 1, got 6"):
        relative_scores(Q, torch.ones(6, 8), masks.offsets(5, 5))


@given(st.integers(1, 6), st.integers(0, 5))
def test_the_shift_puts_distances_under_their_keys(n_q, more):
    n_k = n_q + more
    distances = torch.arange(n_k - 1, -n_q, -1)
    rows = torch.arange(n_q)[:, None]
    shifted = relative_shift(distances + 1000 * rows)
    expected = 1000 * rows + (n_k - n_q) + rows - torch.arange(n_k)
    assert torch.equal(shifted, expected)


@pytest.mark.parametrize("u_shape", [(8,), (3, 1, 8)])
def test_transformer_xl_s_scores_are_its_four_terms_by_hand(u_shape):
    rng = np.random.default_rng(5)
    r, u, v = (torch.as_tensor(rng.standard_normal(shape))
               for shape in ((3, 11, 8), u_shape, u_shape))
    got = transformer_xl_scores(Q, K, r, u, v)
    u, v = (x.expand(3, 1, 8)[:, 0] for x in (u, v))
    for b, h, i, j in np.ndindex(2, 3, 5, 7):
        distance = (2 + i) - j                               # the last query at the last key
        row = r[h, 6 - distance]
        expected = (Q[b, h, i] @ K[b, h, j] + Q[b, h, i] @ row + u[h] @ K[b, h, j] + v[h] @ row)
        assert abs(got[b, h, i, j] - expected) < 1e-12


def test_turned_attention_equals_the_reference_with_a_bias_of_the_differences():
    """q R kᵀ − q kᵀ as a bias: RoPE is a scheme of scores as well."""
    q, k = rotate(Q, *rotary(I_POS, 8)), rotate(K, *rotary(J_POS, 8))
    keep = masks.padding(sizes.lengths(), 7)
    bias = (q @ k.mT - Q @ K.mT) / math.sqrt(8)
    context, _ = reference.attention(Q, K, V, keep, bias)
    assert difference(reference.attention(q, k, V, keep)[0], context) < 1e-12


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
    with raises(ValueError, "n_heads must be at least 1, got 0"):
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
    with pytest.raises(ValueError, match=r"^align must be .* got align=None with n_q=2 and n_k=5"):
        alibi_bias(4, 2, 5)
