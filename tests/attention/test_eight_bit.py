"""Eight bits: within the bound, whatever the numbers are."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from utils import reference
from utils.attention.eight_bit import EightBitCache, context_bound, quantise
from utils.attention.paged import SharedCache


def random(*shape, seed=0, spread=0.0):
    """Return normal numbers; with a spread, rows have very different sizes."""
    rng = np.random.default_rng(seed)
    rows = np.exp(spread * rng.standard_normal((*shape[:-1], 1)))
    return torch.as_tensor(rng.standard_normal(shape) * rows)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_an_element_is_off_by_half_a_scale_at_most(spread, dtype):
    x = random(3, 40, 7, spread=spread).to(dtype)
    codes, scale = quantise(x)
    assert codes.dtype == torch.int8
    assert scale.shape == (3, 40, 1)
    assert scale.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    wide = x.to(scale.dtype)
    assert scale.equal(wide.abs().amax(-1, keepdim=True) / 127)
    assert (codes.abs().amax(-1) == 127).all()
    off = (codes * scale - wide).abs()
    assert (off <= scale / 2 * (1 + 1e-5)).all()
    assert (off > scale * 0.4).any()       # half a scale is not too much


def test_a_row_of_zeros_stays_one():
    codes, scale = quantise(torch.tensor([[0.0, 0.0], [-2.0, 1.0]]))
    assert codes.tolist() == [[0, 0], [-127, 64]]
    assert scale.flatten().tolist() == pytest.approx([0, 2 / 127])


def test_a_large_row_does_not_change_the_others():
    x = random(2, 5, 4)
    before = quantise(x)[0][:, 1:]
    x[:, 0] *= 1e6
    assert quantise(x)[0][:, 1:].equal(before)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.floats(0, 3), st.integers(1, 9), st.integers(1, 5),
       st.floats(0.01, 30))
def test_the_context_is_within_the_bound(seed, spread, n_k, d, size):
    q = random(2, 3, 4, d, seed=seed) * size
    k, v = (random(2, 3, n_k, width, seed=seed + n, spread=spread) for n, width in ((1, d), (2, 6)))
    (k_codes, k_scale), (v_codes, v_scale) = quantise(k), quantise(v)
    exact, _ = reference.attention(q, k, v)
    context, _ = reference.attention(q, k_codes * k_scale, v_codes * v_scale)
    bound = context_bound(q, k_scale, v_scale)
    assert bound.shape == (2, 3, 4)
    off = np.abs(context - exact).max(axis=-1)
    assert (off <= bound.numpy() * (1 + 1e-9)).all()


def test_the_bound_is_the_sum_of_its_three_parts():
    q, k_scale, v_scale = torch.tensor([[3.0, -5.0]]), torch.tensor([[0.1], [0.2]]), torch.tensor(
        [[0.4], [0.3]])
    e = 8 * 0.2 / (2 * math.sqrt(2))       # of a score
    assert context_bound(q, k_scale, v_scale).item() == pytest.approx(127 * 0.4 * e + 0.4 / 2)


@given(st.integers(0, 999), st.floats(0.001, 5))
def test_weights_change_by_2_tanh_e_over_2_at_most(seed, e):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((50, 6)) * rng.uniform(0, 4)
    moved = scores + e * np.sign(rng.standard_normal(scores.shape))
    change = np.abs(reference.softmax(moved) - reference.softmax(scores)).sum(axis=-1)
    assert change.max() <= 2 * math.tanh(e / 2) + 1e-12


def test_two_equal_scores_that_part_reach_the_bound_of_the_weights():
    weights = reference.softmax([0.3, -0.3])
    assert np.abs(weights - 0.5).sum() == pytest.approx(math.tanh(0.3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_the_cache_returns_codes_times_scale(dtype):
    cache = EightBitCache(4, 4, 2, 3, 5, 6, dtype=dtype)
    k, v = random(3, 7, 5, spread=1).to(dtype), random(3, 7, 6, seed=1).to(dtype)
    cache.reserve("a", 7)
    cache.write(1, "a", k, v)
    for got, side in zip(cache.read(1, "a"), (k, v), strict=True):
        codes, scale = quantise(side)
        assert got.dtype == dtype
        assert got.equal((codes * scale).to(dtype))
    assert not any(side.any() for side in cache.read(0, "a"))


def test_a_copied_block_has_its_scales():
    cache = EightBitCache(4, 4, 1, 3, 5)
    k, v = (random(3, 6, 5, seed=n).float() for n in (0, 1))
    cache.reserve("a", 6)
    cache.write(0, "a", k, v)
    before = [side.clone() for side in cache.read(0, "a")]
    cache.share("b", "a")
    cache.reserve("b", 1)
    cache.write(0, "b", k[:, :1], v[:, :1])
    for name in "ab":
        for got, want in zip(cache.read(0, name), before, strict=True):
            assert got[:, :6].equal(want)


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float16, 4), (torch.float32, 4),
                                              (torch.float64, 8)])
def test_its_bytes_are_one_for_each_element_and_a_scale_for_each_row(dtype, scale):
    sizes = {"n_layers": 2, "n_heads": 3, "d": 64, "d_v": 32, "dtype": dtype}
    held, plain = (sum(side.nbytes for side in kind(5, 16, **sizes).sides)
                   for kind in (EightBitCache, SharedCache))
    rows = 2 * 3 * 5 * 16
    assert held == rows * (64 + 32 + 2 * scale)
    assert plain == rows * (64 + 32) * torch.finfo(dtype).bits // 8


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: quantise(torch.ones(3).long()), TypeError, "x must hold floating-point numbers"),
    (lambda: quantise(np.ones(3)), TypeError, "x must be a PyTorch tensor, got ndarray"),
    (lambda: quantise(torch.tensor([1.0, math.nan])), ValueError, "x must be finite"),
    (lambda: quantise(torch.tensor([1.0, math.inf])), ValueError, "x must be finite"),
    (lambda: context_bound(torch.ones(4, 3), torch.ones(5), torch.ones(5)), ValueError, "k_scale"),
    (lambda: context_bound(torch.ones(6, 4, 3), torch.ones(2, 5, 1), torch.ones(2, 5, 1)),
     ValueError, "must be repeated"),
    (lambda: context_bound(torch.ones(4, 3), torch.ones(5, 1), torch.ones(6, 1)), ValueError,
     "(4, 3), (5, 1), (6, 1)"),
    (lambda: context_bound(np.ones((4, 3)), torch.ones(5, 1), torch.ones(5, 1)), TypeError, "q"),
    (lambda: EightBitCache(4, 4, 1, 3, 5, d_v=0), ValueError, "d_v must be at least 1")])
def test_bad_input_is_refused_by_name(call, error, said):
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value)


def test_each_head_of_each_example_has_its_own_bound():
    q, scale = random(2, 3, 4, 5), random(2, 3, 7, 1).abs()
    bound = context_bound(q, scale, 2 * scale)
    for b in range(2):
        for h in range(3):
            k_scale = scale[b, h].max()
            score = q[b, h].abs().sum(-1) * k_scale / (2 * math.sqrt(5))
            assert bound[b, h].allclose(2 * k_scale * (127 * score + 0.5), rtol=1e-12)
