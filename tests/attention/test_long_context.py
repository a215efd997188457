"""Frequencies of RoPE for long sequences, compared with loops over pairs in plain Python."""

import inspect
import math

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, settings, strategies as st

from utils import reference, sizes
from utils.attention.long_context import (
    dynamic_factor,
    frequencies,
    interpolated,
    llama3,
    ntk_base,
    scaled_rotary,
    temperature,
    yarn,
)
from utils.attention.positions import rotary, rotate
from utils.checks import difference

I_POS = torch.tensor([3.0, 0.0, 11.0, 11.0, 40.0], dtype=torch.float64)
FREQS = torch.tensor([1.0, 0.3, 0.02], dtype=torch.float64)


def yarn_by_hand(d, base, factor, original, fast, slow, truncate):
    """Return (frequencies, attention factor), pair by pair: from how often each rotates."""
    first, last = (d * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
                   for turns in (fast, slow))
    if truncate:
        first, last = int(first // 1), -int(-last // 1)
    first, last = max(first, 0), min(last, d - 1)
    found = []
    for n in range(d // 2):
        freq = 1 / base ** (2 * n / d)
        if n <= first:
            found.append(freq)
        elif n >= last:
            found.append(freq / factor)
        else:
            share = (n - first) / (last - first)
            found.append(freq * (1 - share) + freq / factor * share)
    return found, 0.1 * math.log(factor) + 1


def llama3_by_hand(freqs, factor, low, high, original):
    found = []
    for freq in freqs:
        rotations = original / (2 * math.pi / freq)
        if rotations > high:
            found.append(freq)
        elif rotations < low:
            found.append(freq / factor)
        else:
            keep = (rotations - low) / (high - low)
            found.append(keep * freq + (1 - keep) * freq / factor)
    return found


@pytest.mark.parametrize(("d", "base", "share", "rotated"), [
    (6, 10_000.0, 1.0, 6), (16, 500.0, 1.0, 16), (16, 1e6, 0.25, 4), (20, 77, 0.5, 10),
    (2, 10_000.0, 1, 2)])
def test_a_pair_rotates_by_the_base_to_minus_its_share_of_the_rotated_dimensions(
        d, base, share, rotated):
    expected = [base ** (-2 * n / rotated) for n in range(rotated // 2)]
    found = frequencies(d, base, share)
    assert found.dtype == torch.float64
    assert found.shape == (rotated // 2,)
    assert difference(found, expected) < 1e-15


def test_the_usual_base_is_ten_thousand_and_all_dimensions_rotate():
    assert frequencies(4).tolist() == [1, 0.01]


@pytest.mark.parametrize("positions", [
    I_POS, I_POS.float(), I_POS.long(), torch.stack((I_POS, I_POS + 7)), I_POS.half()])
def test_plain_frequencies_give_the_angles_that_the_page_on_positions_teaches(positions):
    for found, want in zip(scaled_rotary(positions, frequencies(10, 77.0)),
                           rotary(positions, 10, 77.0), strict=True):
        assert found.dtype == want.dtype
        assert found.shape == want.shape
        assert difference(found, want) == 0


def test_angles_are_position_times_frequency_and_the_factor_multiplies_both():
    cos, sin = scaled_rotary(I_POS, FREQS, 1.7)
    for i, n in np.ndindex(5, 3):
        angle = I_POS[i].item() * FREQS[n].item()
        assert abs(cos[i, n] - 1.7 * math.cos(angle)) < 1e-14
        assert abs(sin[i, n] - 1.7 * math.sin(angle)) < 1e-14


def test_angles_far_away_are_computed_in_float64():
    far, freqs = torch.tensor([10_000_019]), torch.tensor([1.0, 0.123456789])
    for dtype in (torch.float32, torch.float64):
        cos, sin = scaled_rotary(far, freqs.to(dtype))
        angle = 10_000_019 * freqs.to(dtype).double()
        assert difference(cos[0], angle.cos()) < 1e-7
        assert difference(sin[0], angle.sin()) < 1e-7


def test_angles_stand_on_the_device_of_the_positions():
    cos, sin = scaled_rotary(torch.arange(3, device="meta"), FREQS)
    assert cos.device.type == sin.device.type == "meta"


@given(st.integers(0, 2 ** 20), st.floats(1, 64), st.floats(0.5, 2))
@settings(max_examples=25, deadline=None)
def test_scores_depend_on_the_distance_alone_and_on_the_square_of_the_factor(shift, factor, scale):
    q, k, _ = map(torch.as_tensor, sizes.qkv(d_head=8))     # (2, 3, 5, 8), (2, 3, 7, 8)
    freqs, j_pos = yarn(8, 100.0, factor, 64)[0], torch.arange(7.0).double()

    def scores(shift, scale=1.0):
        q_, k_ = (rotate(side, *scaled_rotary(p + shift, freqs, scale))
                  for side, p in ((q, I_POS), (k, j_pos)))
        return q_ @ k_.mT
    assert difference(scores(shift), scores(0)) < 1e-8
    assert difference(scores(0, scale), scale ** 2 * scores(0)) < 1e-12


def test_the_attention_factor_is_an_inverse_temperature_of_the_softmax():
    """Its square multiplies the scores; so does another scale in the reference."""
    q, k, v = map(torch.as_tensor, sizes.qkv(d_head=8, n_q=7))
    p = torch.arange(7.0).double()
    freqs, factor = yarn(8, 100.0, 5, 64)
    rotated = [rotate(side, *scaled_rotary(p, freqs, factor)) for side in (q, k)]
    plain = [rotate(side, *scaled_rotary(p, freqs)) for side in (q, k)]
    context, weights = reference.attention(*rotated, v)
    want, want_weights = reference.attention(*plain, v, scale=factor ** 2 / math.sqrt(8))
    assert difference(context, want) < 1e-12
    assert difference(weights, want_weights) < 1e-12
    q.requires_grad_()
    grad_out = torch.randn(q.shape, generator=torch.Generator().manual_seed(3), dtype=q.dtype)
    cos, sin = scaled_rotary(p, freqs, factor)
    (rotate(q, cos, sin) * grad_out).sum().backward()
    assert difference(q.grad, rotate(grad_out, cos, -sin)) < 1e-14


@given(st.floats(1, 100), st.floats(0, 1e6))
@settings(max_examples=25, deadline=None)
def test_dividing_frequencies_is_dividing_positions(factor, position):
    p = torch.tensor([position], dtype=torch.float64)
    for found, want in zip(scaled_rotary(p, interpolated(FREQS, factor)),
                           scaled_rotary(p / factor, FREQS), strict=True):
        assert difference(found, want) < 1e-9


@pytest.mark.parametrize(("d", "base", "factor"), [(4, 10_000.0, 8), (64, 500_000.0, 3.5),
                                                   (128, 1e4, 1), (10, 50, 2)])
def test_a_raised_base_keeps_the_first_pair_and_slows_down_the_last_by_the_factor(d, base, factor):
    before, after = frequencies(d, base), frequencies(d, ntk_base(base, factor, d))
    ratio = before / after
    assert ratio[0] == 1
    assert math.isclose(ratio[-1], factor, rel_tol=1e-12)
    expected = [factor ** (2 * n / (d - 2)) for n in range(d // 2)]
    assert difference(ratio, expected) < 1e-12


@pytest.mark.parametrize(("factor", "n", "original", "expected"), [
    (4, 1, 100, 1), (4, 100, 100, 1), (4, 150, 100, 3), (2, 400, 100, 7), (1, 500, 100, 5),
    (1.5, 120, 96, 1.375)])
def test_the_dynamic_factor_is_1_up_to_the_length_of_the_training_and_grows_beyond(
        factor, n, original, expected):
    assert math.isclose(dynamic_factor(factor, n, original), expected, rel_tol=1e-15)


@pytest.mark.parametrize(("factor", "mscale", "expected"), [
    (1, 1.0, 1), (math.e, 1.0, 1.1), (math.e ** 3, 0.5, 1.15), (8, 1.0, 1.2079441541679836)])
def test_the_temperature_grows_with_the_logarithm_of_the_factor(factor, mscale, expected):
    assert math.isclose(temperature(factor, mscale), expected, rel_tol=1e-15)


YARN = [(32, 1e4, 8, 128, 32, 1), (128, 1e6, 4, 32_768, 32, 1), (64, 150_000, 32, 4096, 32, 1),
        (64, 1e4, 40, 4096, 32, 1), (32, 1e4, 2.5, 640, 8, 0.5), (8, 100.0, 5, 64, 4, 1),
        (16, 1e4, 1, 256, 32, 1), (6, 30.0, 3, 300, 60, 20), (8, 100.0, 5, 64, 4, 1e-4)]


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("options", YARN)
def test_yarn_keeps_fast_pairs_divides_slow_ones_and_mixes_between(options, truncate):
    found, factor = yarn(*options, truncate)
    want, want_factor = yarn_by_hand(*options, truncate)
    assert found.dtype == torch.float64
    assert difference(found / torch.tensor(want, dtype=torch.float64), np.ones(len(want))) < 1e-13
    assert math.isclose(factor, want_factor, rel_tol=1e-15)


def test_yarn_s_ramp_runs_from_32_rotations_to_1_and_is_truncated():
    parameters = inspect.signature(yarn).parameters
    assert {name: parameters[name].default for name in ("beta_fast", "beta_slow", "truncate")} == {
        "beta_fast": 32, "beta_slow": 1, "truncate": True}


@pytest.mark.parametrize(("factor", "low", "high", "original"), [
    (8, 1, 4, 8192), (32, 1, 4, 8192), (2, 0.5, 9, 300), (1, 1, 4, 100)])
def test_llama_3_keeps_divides_and_mixes_by_the_number_of_rotations(factor, low, high, original):
    freqs = frequencies(64, 500_000.0)
    found = llama3(freqs, factor, low, high, original)
    want = llama3_by_hand(freqs.tolist(), factor, low, high, original)
    assert difference(found / torch.tensor(want, dtype=torch.float64), np.ones(32)) < 1e-13


def test_llama_3_is_by_default_what_llama_3_1_has():
    freqs = frequencies(128, 500_000.0)
    assert torch.equal(llama3(freqs), llama3(freqs, 8, 1, 4, 8192))


def test_a_factor_of_1_changes_nothing():
    freqs = frequencies(16)
    assert torch.equal(interpolated(freqs, 1), freqs)
    assert ntk_base(1e4, 1, 16) == 1e4
    assert temperature(1) == 1
    assert difference(yarn(16, 1e4, 1, 128)[0], freqs) < 1e-15
    assert difference(llama3(freqs, 1), freqs) < 1e-15


def test_no_frequencies_are_changed_in_place():
    freqs = frequencies(16)
    before = freqs.clone()
    interpolated(freqs, 3)
    llama3(freqs, 3, original=64)
    scaled_rotary(I_POS, freqs, 2)
    assert torch.equal(freqs, before)


TWO = torch.ones(2, 3)
REFUSED = [
    (frequencies, (7,), ValueError,
     "d must be even, because dimensions are rotated in pairs, got d=7"),
    (frequencies, (8.0,), TypeError, "d must be an integer, got 8.0"),
    (frequencies, (8, 0), ValueError, "base must be greater than 0, got 0"),
    (frequencies, (8, 1e4, 1.5), ValueError,
     "share must be at most 1, because it is a fraction of the d dimensions, got 1.5"),
    (frequencies, (8, 1e4, 0), ValueError, "share must be greater than 0 and finite, got 0"),
    (frequencies, (8, 1e4, "half"), TypeError, "share must be a number, got 'half'"),
    (frequencies, (10, 1e4, 0.3), ValueError,
     "share=0.3 of d=10 is 3 dimensions, but dimensions are rotated in pairs: it must be 2 or a "
     "greater even number"),
    (frequencies, (10, 1e4, 0.01), ValueError,
     "share=0.01 of d=10 is 0 dimensions, but dimensions are rotated in pairs: it must be 2 or a "
     "greater even number"),
    (scaled_rotary, (I_POS, TWO), ValueError,
     "freqs must be one axis, a frequency for each pair of dimensions, got (2, 3)"),
    (scaled_rotary, (I_POS, [1.0, 0.1]), TypeError,
     "freqs must be an array or a tensor, got list"),
    (scaled_rotary, (I_POS, FREQS, 0), ValueError,
     "attention_factor must be greater than 0 and finite, got 0"),
    (interpolated, (FREQS, 0.5), ValueError, "factor must be at least 1 and finite, got 0.5"),
    (interpolated, (FREQS, math.inf), ValueError, "factor must be at least 1 and finite, got inf"),
    (interpolated, (FREQS, True), TypeError, "factor must be a number, got True"),
    (interpolated, (TWO, 2), ValueError,
     "freqs must be one axis, a frequency for each pair of dimensions, got (2, 3)"),
    (ntk_base, (1e4, 2, 2), ValueError,
     "d must be at least 4, got d=2: a single pair has the frequency 1 with every base"),
    (ntk_base, (1e4, 0, 8), ValueError, "factor must be at least 1 and finite, got 0"),
    (ntk_base, (-1, 2, 8), ValueError, "base must be greater than 0, got -1"),
    (dynamic_factor, (0.9, 5, 3), ValueError, "factor must be at least 1 and finite, got 0.9"),
    (dynamic_factor, (2, 0, 3), ValueError, "n must be at least 1, got 0"),
    (dynamic_factor, (2, 5, 3.0), TypeError, "original must be an integer, got 3.0"),
    (temperature, (0.5,), ValueError, "factor must be at least 1 and finite, got 0.5"),
    (yarn, (8, 1e4, 0.5, 64), ValueError, "factor must be at least 1 and finite, got 0.5"),
    (yarn, (2, 1e4, 2, 64), ValueError,
     "d must be at least 4, got d=2: a single pair has the frequency 1 with every base"),
    (yarn, (8, 1.0, 2, 64), ValueError, "base must be greater than 1, got 1.0"),
    (yarn, (8, 1e4, 2, 0), ValueError, "original must be at least 1, got 0"),
    (yarn, (8, 1e4, 2, 64, 1, 1), ValueError,
     "beta_slow must be less than beta_fast, got beta_slow=1 and beta_fast=1"),
    (yarn, (8, 1e4, 2, 64, 32, 0), ValueError,
     "beta_slow must be greater than 0 and finite, got 0"),
    (yarn, (8, 1e4, 2, 5), ValueError,
     "in original=5 tokens, the pairs of dimensions rotate 0.000796 to 0.796 times, so there is "
     "no pair between beta_slow=1 and beta_fast=32 rotations: is it another original, base or d?"),
    (yarn, (8, 2.0, 2, 1000), ValueError,
     "in original=1000 tokens, the pairs of dimensions rotate 94.6 to 159 times, so there is no "
     "pair between beta_slow=1 and beta_fast=32 rotations: is it another original, base or d?"),
    (llama3, (FREQS, 8, 4, 4), ValueError, "low must be less than high, got low=4 and high=4"),
    (llama3, (FREQS, 8, 1, 4, 0), ValueError, "original must be at least 1, got 0"),
    (llama3, (FREQS, 0.1), ValueError, "factor must be at least 1 and finite, got 0.1"),
    (llama3, (TWO,), ValueError,
     "freqs must be one axis, a frequency for each pair of dimensions, got (2, 3)")]


@pytest.mark.parametrize(("function", "given", "error", "words"), REFUSED)
def test_arguments_that_make_no_sense_are_refused(function, given, error, words):
    with raises(error, words):
        function(*given)
