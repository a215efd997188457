"""Linear attention and the gated delta rule: loop, one matrix, chunks, and the sums themselves."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, settings, strategies as st

from utils.attention.state import (
    chunked,
    decays,
    one_matrix,
    recurrent,
    state_bytes,
    unit,
    without_padding,
)
from utils.checks import difference

B, H, N, D, DV = 2, 3, 11, 4, 7


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


def inputs(n=N, seed=0):
    """Return q, k, v, log_decay, beta, state; keys have length 1."""
    q, k, v = (random(B, H, n, size, seed=seed + place) for place, size in enumerate((D, D, DV)))
    log_decay = -random(B, H, n, seed=seed + 3).abs()
    return q, unit(k, 0), v, log_decay, random(B, H, n, seed=seed + 4).sigmoid(), random(
        B, H, D, DV, seed=seed + 5)


Q, K, V, G, BETA, STATE = inputs()
RULES = {"linear": (None, None, None), "decay": (G, None, None), "delta": (None, BETA, None),
         "gated": (G, BETA, None), "gated, from a state": (G, BETA, STATE),
         "decay, from a state": (G, None, STATE)}
PROGRAMS = {"recurrent": recurrent, "one_matrix": one_matrix, "chunked": chunked}
PROGRAMS |= {f"chunks of {size}": lambda *args, size=size: chunked(*args, size=size)
             for size in (1, 3, 10, 11, 12)}


def by_sums(q, k, v, log_decay, beta, state):
    """Return (context, state) of one head in NumPy: products of whole transition matrices.

    The state after token i is a sum: what token j wrote, beta k vᵀ, times the transitions
    decay (I - beta k kᵀ) of all tokens after j.
    """
    q, k, v = (side.numpy() for side in (q, k, v))
    n, d = k.shape
    decay = np.ones(n) if log_decay is None else np.exp(log_decay.numpy())
    delta = np.zeros(n) if beta is None else beta.numpy()
    strength = np.ones(n) if beta is None else beta.numpy()
    first = np.zeros((d, v.shape[1])) if state is None else state.numpy()
    steps = [decay[i] * (np.eye(d) - delta[i] * np.outer(k[i], k[i])) for i in range(n)]
    contexts = []
    for i in range(n):
        total = np.linalg.multi_dot([*reversed(steps[:i + 1]), first]) if i else steps[0] @ first
        for j in range(i + 1):
            wrote = strength[j] * np.outer(k[j], v[j])
            for later in steps[j + 1:i + 1]:
                wrote = later @ wrote
            total = total + wrote
        contexts.append(q[i] @ total)
    return np.array(contexts), total


def at(x, b, h):
    return None if x is None else x[b, h]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_context_and_state_are_those_of_the_sums(program, rule):
    context, state = program(Q, K, V, *rule)
    assert context.shape == (B, H, N, DV)
    assert state.shape == (B, H, D, DV)
    for b in range(B):
        for h in range(H):
            want = by_sums(*(at(x, b, h) for x in (Q, K, V, *rule)))
            assert difference(context[b, h], want[0]) < 1e-12
            assert difference(state[b, h], want[1]) < 1e-12


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "recurrent"])
@pytest.mark.parametrize("rule", RULES)
def test_gradients_are_those_of_the_loop(name, rule):
    found = []
    for program in (recurrent, PROGRAMS[name]):
        leaves = [None if x is None else x.clone().requires_grad_()
                  for x in (Q, K, V, *RULES[rule])]
        context, state = program(*leaves)
        loss = (context * random(*context.shape, seed=9)).sum() + (
            state * random(*state.shape, seed=10)).sum()
        found.append(torch.autograd.grad(loss, [x for x in leaves if x is not None]))
    for want, got in zip(*found, strict=True):
        assert difference(got, want) < 1e-11


def test_the_gradient_of_the_loop_is_that_of_finite_differences():
    small = [x[:1, :1, :3].clone().requires_grad_() for x in (Q, K, V, G, BETA)]
    state = STATE[:1, :1].clone().requires_grad_()
    for program in (recurrent, one_matrix):
        assert torch.autograd.gradcheck(program, (*small, state))


def test_linear_attention_is_the_masked_matrix():
    scores = (Q @ K.mT).masked_fill(torch.ones(N, N).triu(1).bool(), 0)
    assert difference(recurrent(Q, K, V)[0], scores @ V) < 1e-12


def test_a_decay_of_zero_leaves_only_the_token_itself():
    log_decay = torch.full_like(G, -800)  # exp gives 0
    want = (Q * K).sum(dim=-1, keepdim=True) * V
    for program in PROGRAMS.values():
        assert difference(program(Q, K, V, log_decay)[0], want) < 1e-12


@pytest.mark.parametrize("beta", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_delta_rule_writes_that_share_of_the_difference(program, beta):
    """After the write, the key returns its old value, moved by beta towards the new one."""
    strength = torch.full_like(BETA, beta)
    _, state = program(Q[..., :1, :], K[..., :1, :], V[..., :1, :], G[..., :1],
                       strength[..., :1], STATE)
    old = K[..., :1, :] @ (G[..., :1, None].exp() * STATE)
    assert difference(K[..., :1, :] @ state, old + beta * (V[..., :1, :] - old)) < 1e-12


def test_orthonormal_keys_are_recalled_exactly_and_one_more_is_not():
    keys = torch.linalg.qr(random(D, D))[0].expand(B, H, D, D)
    values = V[..., :D, :]
    for beta in (None, torch.ones(B, H, D, dtype=torch.float64)):
        _, state = recurrent(keys, keys, values, None, beta)
        assert difference(keys @ state, values) < 1e-12
    more, v = K[..., :D + 1, :], V[..., :D + 1, :]
    best = torch.linalg.lstsq(more, v).solution
    assert (more @ best - v).abs().amax(dim=(-1, -2)).min() > 0.01


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("rule", ["decay", "gated"])
def test_a_long_and_strong_decay_gives_no_nan(program, rule):
    """Products of decays are 0 in float64 here, and 0 / 0 would be NaN."""
    q, k, v, _, beta, _ = inputs(60)
    log_decay = torch.full((B, H, 60), -50.0, dtype=torch.float64)
    context, state = program(q, k, v, log_decay, beta if rule == "gated" else None)
    assert context.isfinite().all()
    assert state.isfinite().all()
    want, _ = recurrent(q, k, v, log_decay, beta if rule == "gated" else None)
    assert difference(context, want) < 1e-12
    leaf = log_decay.requires_grad_()
    context, _ = program(q, k, v, leaf, beta if rule == "gated" else None)
    assert torch.autograd.grad(context.sum(), leaf)[0].isfinite().all()


@given(cuts=st.lists(st.integers(1, N - 1), max_size=4, unique=True), seed=st.integers(0, 99),
       gated=st.booleans(), delta=st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_sequence_may_be_cut_anywhere_if_the_state_is_handed_on(cuts, seed, gated, delta):
    q, k, v, g, beta, state = inputs(seed=seed)
    g, beta = (g if gated else None), (beta if delta else None)
    want = recurrent(q, k, v, g, beta, state)
    contexts, edges = [], [0, *sorted(cuts), N]
    for start, end in pairwise(edges):
        part = slice(start, end)
        sides = (side[..., part, :] for side in (q, k, v))
        gates = (None if x is None else x[..., part] for x in (g, beta))
        context, state = one_matrix(*sides, *gates, state)
        contexts.append(context)
    assert difference(torch.cat(contexts, dim=-2), want[0]) < 1e-12
    assert difference(state, want[1]) < 1e-12


def test_decays_by_hand():
    found = decays(torch.tensor([0.3, 0.5, 0.25, 0.2], dtype=torch.float64).log())
    assert torch.allclose(found, torch.tensor(
        [[1, 0, 0, 0], [0.5, 1, 0, 0], [0.125, 0.25, 1, 0], [0.025, 0.05, 0.2, 1]]).double())


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("rule", ["linear", "decay", "delta", "gated", "gated, from a state"])
@pytest.mark.parametrize("where", [[0, 1, 2], [3, 4, 7], [9, 10]])
def test_padding_changes_neither_context_nor_state(program, rule, where):
    """Each example alone, without its padding, gives the same; the padding is noise."""
    log_decay, beta, state = RULES[rule]
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, where] = False
    noise = ~real[:, None, :, None]
    q, k, v = (side.masked_fill(noise, 1e6) for side in (Q, K, V))
    g = (torch.zeros_like(G) if log_decay is None else log_decay).masked_fill(noise[..., 0], -9.0)
    clean, still = without_padding(k, g, real)
    context, last = program(q, clean, v, still, beta, state)
    for b in range(B):
        alone = [None if x is None else x[b:b + 1][:, :, real[b]] for x in (Q, K, V, log_decay,
                                                                            beta)]
        want = recurrent(*alone, None if state is None else state[b:b + 1])
        assert difference(context[b:b + 1][:, :, real[b]], want[0]) < 1e-12
        assert difference(last[b:b + 1], want[1]) < 1e-12


def test_no_gradient_reaches_padding():
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, 4:7] = False
    leaves = [x.clone().requires_grad_() for x in (K, V, G, BETA)]
    k, v, g, beta = leaves
    context, state = chunked(Q, *without_padding(k, g, real)[:1], v,
                             without_padding(k, g, real)[1], beta, size=4)
    kept = context.masked_fill(~real[:, None, :, None], 0)
    for x in torch.autograd.grad(kept.square().sum() + state.square().sum(), leaves):
        assert (x[1, :, 4:7] == 0).all()
        assert (x[1, :, :4] != 0).any()
        assert (x[0] != 0).any()


def test_unit_vectors_have_length_one_and_zeros_stay_zero():
    assert difference(unit(Q, 0).norm(dim=-1), torch.ones(B, H, N)) < 1e-12
    longer = (Q.square().sum(dim=-1, keepdim=True) + 0.25).sqrt()
    assert difference(unit(Q, 0.25), Q / longer) < 1e-12
    assert (unit(torch.zeros(2, 3)) == 0).all()


def test_bytes_of_states_by_hand():
    assert state_bytes(3, 5, 7, 11) == 3 * 5 * 7 * 11 * 4
    assert state_bytes(3, 5, 7, 11, width=2) == 3 * 5 * 7 * 11 * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_dtype_is_kept(program, dtype):
    context, state = program(*(x.to(dtype) for x in (Q, K, V, G, BETA, STATE)))
    assert context.dtype == state.dtype == dtype
    assert difference(context, recurrent(Q, K, V, G, BETA, STATE)[0]) < 1e-5


@pytest.mark.parametrize("axes", [(), (H,), (B, 1, H)])
def test_any_axes_may_stand_before_the_tokens(axes):
    q, k, v = random(*axes, N, D), unit(random(*axes, N, D, seed=1)), random(*axes, N, DV, seed=2)
    g = -random(*axes, N, seed=3).abs()
    for found, want in zip(chunked(q, k, v, g, size=4), recurrent(q, k, v, g), strict=True):
        assert difference(found, want) < 1e-12


@pytest.mark.parametrize("program", [recurrent, one_matrix, chunked])
@pytest.mark.parametrize(("changed", "error", "message"), [
    ({"q": Q.numpy()}, TypeError, "q is a NumPy array, but k is a PyTorch tensor: convert one of "
                                  "them"),
    ({"q": Q[..., :5, :]}, ValueError,
     "every token has a query and a key, so q and k must have one shape, got q (2, 3, 5, 4) and k "
     "(2, 3, 11, 4)"),
    ({"v": V[..., :5, :]}, ValueError, "k and v must have equally many keys (axis -2): k has 11, v "
                                       "has 5"),
    ({"log_decay": G[..., None]}, ValueError, "log_decay must be (…, i), one number for each token "
                                              "of k: (2, 3, 11), got (2, 3, 11, 1)"),
    ({"log_decay": G.exp()}, ValueError, "log_decay must be finite and at most 0, because it is "
                                         "the logarithm of a decay between 0 and 1, got LOW to "
                                         "HIGH"),
    ({"log_decay": -torch.full_like(G, torch.inf)}, ValueError, "log_decay must be finite and at "
     "most 0, because it is the logarithm of a decay between 0 and 1, got -inf to -inf"),
    ({"log_decay": G * torch.nan}, ValueError, "log_decay must be finite and at most 0, because it "
     "is the logarithm of a decay between 0 and 1, got nan to nan"),
    ({"beta": BETA[:1]}, ValueError, "beta must be (…, i), one number for each token of k: "
                                     "(2, 3, 11), got (1, 3, 11)"),
    ({"beta": BETA.float()}, TypeError, "k is float64, but beta is float32: convert one of them"),
    ({"state": STATE.mT}, ValueError, "state must be (…, d, d_v) = (2, 3, 4, 7), got (2, 3, 7, 4)"),
    ({"state": STATE[:1]}, ValueError,
     "state must be (…, d, d_v) = (2, 3, 4, 7), got (1, 3, 4, 7)"),
    ({"state": None, "q": Q[..., :0, :], "k": K[..., :0, :], "v": V[..., :0, :]}, ValueError,
     "k must have at least one token, got (2, 3, 0, 4)"),
])
def test_what_does_not_fit_is_named(program, changed, error, message):
    given = {"q": Q, "k": K, "v": V, "log_decay": None, "beta": None, "state": STATE} | changed
    low, high = G.exp().aminmax()
    message = message.replace("LOW", f"{low:.3g}").replace("HIGH", f"{high:.3g}")
    with raises(error, message):
        program(**given)


def test_numpy_arrays_are_refused():
    with raises(TypeError, "q must be a PyTorch tensor, got a NumPy array"):
        recurrent(Q.numpy(), K.numpy(), V.numpy())
    with raises(TypeError, "x must be a PyTorch tensor, got a NumPy array"):
        unit(Q.numpy())
    with raises(TypeError, "log_decay must be a PyTorch tensor, got a NumPy array"):
        decays(G.numpy())
    with pytest.raises(ValueError, match="log_decay must be finite and at most 0"):
        decays(-G)


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (2.5, TypeError)])
def test_a_chunk_has_at_least_one_token(size, error):
    with pytest.raises(error, match="size must be"):
        chunked(Q, K, V, size=size)


@pytest.mark.parametrize(("real", "error", "message"), [
    (torch.ones(B, N), TypeError, "real must be a PyTorch tensor of bool, True = no padding, got "
                                  "torch.float32"),
    ([True], TypeError, "real must be a PyTorch tensor of bool, True = no padding, got list"),
    (torch.ones(N, B).bool(), ValueError,
     "real must be (b, i) for k (b, h, i, d), got real (11, 2) and k (2, 3, 11, 4)"),
])
def test_a_mask_that_does_not_fit_is_named(real, error, message):
    with raises(error, message):
        without_padding(K, G, real)


def test_sizes_of_states_are_counts():
    with pytest.raises(ValueError, match="heads must be at least 1, got 0"):
        state_bytes(1, 0, 2, 3)
    with pytest.raises(TypeError, match="d_v must be an integer"):
        state_bytes(1, 2, 3, 4.5)
