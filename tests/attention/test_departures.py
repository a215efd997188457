"""What today's models change in the one equation: by loops, by gradients, and what survives."""

import math

import numpy as np
import pytest
import torch
from exact import raises

from utils import masks, reference, sizes
from utils.attention.departures import (
    attention_with_sink,
    gated,
    qk_norm,
    soft_capped,
    temperature,
)
from utils.attention.positions import rotary, rotate
from utils.attention.torch import attention
from utils.checks import difference

Q, K, V = (torch.as_tensor(side) for side in sizes.qkv(d_head=8))  # (2, 3, 5 or 7, 8), d_v = 8
V = torch.cat((V, V[..., :3] ** 2), dim=-1)                        # d_v = 11
SINK = torch.tensor([0.3, -2.0, 4.0], dtype=torch.float64)
KEEP = torch.as_tensor(masks.padding([7, 4], 7) & masks.causal(5, 7, "bottom_right"))
GENERATOR = np.random.default_rng(0)


def random(*shape):
    return torch.as_tensor(GENERATOR.normal(size=shape))


def sink_by_loops(q, k, v, sink, keep):
    """Return the context, one number after the other."""
    q, k, v, sink, keep = (x.numpy() for x in (q, k, v, sink, keep))
    (b, h, n, d), d_v = q.shape, v.shape[-1]
    keep, context = np.broadcast_to(keep, (b, h, n, k.shape[2])), np.zeros((b, h, n, d_v))
    for e, head, i in np.ndindex(b, h, n):
        exps = {j: math.exp(q[e, head, i] @ k[e, head, j] / math.sqrt(d))
                for j in range(k.shape[2]) if keep[e, head, i, j]}
        total = sum(exps.values()) + math.exp(sink[head])
        for j, exp in exps.items():
            context[e, head, i] += exp / total * v[e, head, j]
    return context


# --- a sink

@pytest.mark.parametrize("keep", [None, KEEP], ids=["bare", "masked"])
def test_the_sink_adds_to_the_denominator_alone(keep):
    context, weights = attention_with_sink(Q, K, V, SINK, keep)
    every = torch.ones(5, 7, dtype=bool) if keep is None else keep
    assert difference(context, sink_by_loops(Q, K, V, SINK, every)) < 1e-14
    assert difference(weights @ V, context) < 1e-15
    assert (weights.sum(dim=-1) < 1).all()


def test_a_sink_is_one_more_key_of_that_score_without_a_value():
    """q has one more dimension, 1, in which that key alone is not zero."""
    for h in range(3):
        q = torch.cat((Q[:, h], torch.ones(2, 5, 1, dtype=Q.dtype)), dim=-1)
        k = torch.cat((K[:, h], torch.zeros(2, 7, 1, dtype=Q.dtype)), dim=-1)
        more = torch.zeros(2, 1, 9, dtype=Q.dtype)
        more[..., -1] = SINK[h] * math.sqrt(9)
        q[..., :-1] *= math.sqrt(9 / 8)  # the scale of 9 dimensions
        v = torch.cat((V[:, h], torch.zeros(2, 1, 11, dtype=Q.dtype)), dim=-2)
        keep = torch.cat((KEEP[:, 0], torch.ones(2, 5, 1, dtype=bool)), dim=-1)
        want, _ = attention(q, torch.cat((k, more), dim=-2), v, keep)
        assert difference(attention_with_sink(Q, K, V, SINK, KEEP)[0][:, h], want) < 1e-14


def test_without_a_sink_it_is_the_one_equation_also_where_nothing_is_allowed():
    nothing = KEEP.clone()
    nothing[1, :, 2] = False
    for keep in (None, KEEP, nothing):
        found = attention_with_sink(Q, K, V, torch.full_like(SINK, -math.inf), keep)
        for got, want in zip(found, attention(Q, K, V, keep), strict=True):
            assert difference(got, want) < 1e-15
    assert (found[0][1, :, 2] == 0).all()


def test_the_heads_have_sinks_of_their_own_and_large_ones_do_not_overflow():
    weights = attention_with_sink(1e3 * Q, K, V, torch.tensor([0.0, 1e6, -1e6]).double())[1]
    assert weights.isfinite().all()
    assert (weights[:, 1] == 0).all()
    assert difference(weights[:, 2].sum(dim=-1), torch.ones(2, 5)) < 1e-12


@pytest.mark.parametrize("sink", [SINK, SINK - 2])
def test_gradients_of_attention_with_a_sink(sink):
    parts = [x.clone().requires_grad_() for x in (Q[:1], K[:1], V[:1], sink)]
    assert torch.autograd.gradcheck(lambda *x: attention_with_sink(*x, KEEP[1:]), parts)


def test_a_sink_of_minus_infinity_has_no_gradient_and_spoils_no_other():
    parts = [x.clone().requires_grad_() for x in (Q, K, V, torch.full_like(SINK, -math.inf))]
    nothing = KEEP.clone()
    nothing[1, :, 2] = False
    attention_with_sink(*parts, nothing)[0].sum().backward()
    wanted = [x.clone().requires_grad_() for x in (Q, K, V)]
    attention(*wanted, nothing)[0].sum().backward()
    for got, want in zip(parts, wanted, strict=False):
        assert difference(got.grad, want.grad) < 1e-14
    assert (parts[3].grad == 0).all()


@pytest.mark.parametrize("sink", [SINK[:2], SINK[None]])
def test_a_sink_for_other_heads_is_refused(sink):
    with raises(ValueError, "sink must be (h,), one score for each head of q (b, h, i, d), got "
                            f"sink {tuple(sink.shape)} and q (2, 3, 5, 8)"):
        attention_with_sink(Q, K, V, sink)


def test_a_sink_or_a_gain_of_another_dtype_is_refused_but_not_where_pytorch_chooses():
    q, k, v = (x.float() for x in (Q, K, V))
    with raises(TypeError, "q is float32, but sink is float64: convert one of them"):
        attention_with_sink(q, k, v, SINK)
    with raises(TypeError, "x is float32, but gain is float64: convert one of them"):
        qk_norm(q, torch.ones(8).double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        context, _ = attention_with_sink(*(x.bfloat16() for x in (q, k, v)), SINK.float(), KEEP)
    assert context.dtype == torch.bfloat16
    assert difference(context, attention_with_sink(Q, K, V, SINK, KEEP)[0]) < 0.05


# --- soft-capped scores

@pytest.mark.parametrize("cap", [0.5, 2, 50.0])
def test_capped_scores_are_those_of_the_reference_and_stay_below_the_cap(cap):
    scores = Q @ K.mT / math.sqrt(8)
    capped = soft_capped(scores, cap)
    want = [cap * math.tanh(s / cap) for s in scores.flatten().tolist()]
    assert difference(capped.flatten(), want) < 1e-14
    assert capped.abs().max() < cap
    weights = capped.masked_fill(~KEEP, -math.inf).softmax(dim=-1)
    assert difference(weights, reference.attention(Q, K, V, KEEP, softcap=cap)[1]) < 1e-14
    assert torch.autograd.gradcheck(lambda s: soft_capped(s, cap),
                                    scores[:1].clone().requires_grad_())


def test_a_cap_keeps_the_order_and_hardly_moves_small_scores():
    scores = torch.linspace(-3, 3, 101, dtype=torch.float64)
    assert (soft_capped(scores, 2.0).diff() > 0).all()
    assert (soft_capped(scores, 50.0) - scores).abs().max() < 3 ** 3 / (3 * 50 ** 2)


def test_capping_after_the_mask_would_let_masked_keys_in():
    scores = (Q @ K.mT).masked_fill(~KEEP, -math.inf)
    assert soft_capped(scores, 5.0).isfinite().all()


@pytest.mark.parametrize("cap", [0, -2.0, math.nan, math.inf])
def test_a_cap_that_is_not_positive_and_finite_is_refused(cap):
    with raises(ValueError, f"cap must be greater than 0 and finite, got {cap}"):
        soft_capped(Q, cap)


# --- a gate

def test_the_gate_multiplies_each_number_of_the_context():
    context, gate = random(2, 5, 6), random(2, 5, 6)
    want = [c / (1 + math.exp(-g)) for c, g in zip(context.flatten().tolist(),
                                                   gate.flatten().tolist(), strict=True)]
    assert difference(gated(context, gate).flatten(), want) < 1e-15
    parts = [x.requires_grad_() for x in (context, gate)]
    assert torch.autograd.gradcheck(gated, parts)
    assert difference(gated(context, torch.zeros_like(gate)), context / 2) < 1e-15


def test_a_gate_of_another_shape_is_refused():
    with raises(ValueError, "context and gate must have one shape, got context (2, 5, 6) and gate "
                            "(2, 5, 1)"):
        gated(random(2, 5, 6), random(2, 5, 1))


# --- norms of q and k

def normed_by_loops(x, gain, whole, eps):
    x, found = x.numpy(), np.zeros(x.shape)
    b, h, n, d = x.shape
    for e, head, i in np.ndindex(b, h, n):
        of = [x[e, g, i, c] for g in (range(h) if whole else [head]) for c in range(d)]
        size = math.sqrt(sum(a * a for a in of) / len(of) + eps)
        for c in range(d):
            found[e, head, i, c] = x[e, head, i, c] / size * gain[head * d + c if whole else c]
    return found


@pytest.mark.parametrize("eps", [1e-6, 0.3])
@pytest.mark.parametrize("plus_one", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_the_norm_number_by_number(whole, plus_one, eps):
    gain = random(24 if whole else 8)
    factor = (gain + 1 if plus_one else gain).tolist()
    found = qk_norm(Q, gain, whole, plus_one, eps)
    assert difference(found, normed_by_loops(Q, factor, whole, eps)) < 1e-14
    assert difference(qk_norm(Q, None, whole, plus_one, eps),
                      normed_by_loops(Q, [1.0] * 24, whole, eps)) < 1e-14
    parts = [Q[:1, :, :2].clone().requires_grad_(), gain.requires_grad_()]
    assert torch.autograd.gradcheck(lambda x, g: qk_norm(x, g, whole, plus_one, eps), parts)


def test_over_the_whole_width_a_head_depends_on_the_others():
    louder = Q.clone()
    louder[:, 2] *= 10
    assert qk_norm(louder)[:, :2].equal(qk_norm(Q)[:, :2])
    assert difference(qk_norm(louder), qk_norm(Q)) < 1e-5  # each head has its own size
    moved = (qk_norm(louder, whole=True) - qk_norm(Q, whole=True))[:, :2].abs()
    assert moved.amax(dim=(0, 2, 3)).min() > 0.1


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
def test_a_norm_without_gain_commutes_with_rope(interleaved, whole):
    cos, sin = rotary(torch.tensor([0.0, 3, 4, 11, 500]).double(), 8)

    def rotated(x):
        return rotate(x, cos, sin, interleaved)

    assert difference(rotated(qk_norm(Q, whole=whole)), qk_norm(rotated(Q), whole=whole)) < 1e-14
    gain = random(24 if whole else 8)
    before, after = rotated(qk_norm(Q, gain, whole)), qk_norm(rotated(Q), gain, whole)
    assert (before - after)[:, :, 1:].abs().amax(dim=-1).min() > 1e-3  # position 0: angle 0
    assert difference(before[:, :, :1], after[:, :, :1]) < 1e-14
    pairs = random(len(gain) // 2).view(-1, 4)
    equal = pairs.repeat_interleave(2, dim=-1) if interleaved else pairs.repeat(1, 2)
    same, wrong = equal.flatten(), torch.cat((pairs, pairs.flip(-1)), dim=-1).flatten()
    assert difference(rotated(qk_norm(Q, same, whole)), qk_norm(rotated(Q), same, whole)) < 1e-13
    assert difference(rotated(qk_norm(Q, wrong, whole)), qk_norm(rotated(Q), wrong, whole)) > 1e-2


def test_with_the_norm_a_score_is_at_most_the_root_of_d():
    scores = qk_norm(100 * Q) @ qk_norm(100 * K).mT / math.sqrt(8)
    assert scores.abs().max() <= math.sqrt(8)
    assert difference(qk_norm(100 * Q), qk_norm(Q)) < 1e-5


@pytest.mark.parametrize(("whole", "size", "words"), [
    (False, 24, "gain must be (d,) = (8,) for x (2, 3, 5, 8), got (24,)"),
    (True, 8, "gain must be (h * d,) = (24,) for x (2, 3, 5, 8), got (8,)")])
def test_a_gain_that_does_not_fit_is_refused(whole, size, words):
    with raises(ValueError, words):
        qk_norm(Q, random(size), whole)


# --- temperature

def test_the_temperature_is_one_at_first_and_grows_in_steps():
    positions = torch.tensor([[0, 6, 7, 14], [15, 22, 23, 800]])
    want = [[1 + 0.1 * math.log(1 + (p + 1) // 8) for p in row] for row in positions.tolist()]
    assert difference(temperature(positions.double(), 8), want) < 1e-15
    assert temperature(positions, 8).dtype == torch.float32
    assert temperature(torch.tensor([8190, 8191]), attn_scale=0.5).tolist() == [
        1, pytest.approx(1 + 0.5 * math.log(2))]


def test_a_floor_below_one_is_refused():
    with raises(ValueError, "floor_scale must be at least 1, got 0"):
        temperature(torch.arange(3), 0)


def test_by_default_the_gain_is_for_each_head_and_multiplies():
    gain = random(8)
    assert qk_norm(Q, gain).equal(qk_norm(Q, gain, whole=False, plus_one=False))
    assert difference(qk_norm(Q, gain), qk_norm(Q) * gain) < 1e-15
