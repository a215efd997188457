"""States in a server: the accepted tokens of a draft, by snapshots, by computing again, by hand."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from utils.attention.state import chunked, recurrent, unit
from utils.attention.state_server import (
    accepted_state,
    accepted_window,
    every_state,
    recomputed_state,
)
from utils.checks import difference

B, H, N, D, DV, C, W = 5, 3, 4, 6, 7, 8, 3
ACCEPTED = torch.tensor([2, 0, 4, 1, 3])


def random(*shape, seed):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


def inputs(n, seed=0):
    q, k, v = (random(B, H, n, size, seed=seed + place) for place, size in enumerate((D, D, DV)))
    return q, unit(k, 0), v, -random(B, H, n, seed=seed + 3).abs(), random(
        B, H, n, seed=seed + 4).sigmoid()


def rules(log_decay, beta):
    return {"linear": (torch.zeros_like(log_decay), None), "decay": (log_decay, None),
            "delta": (torch.zeros_like(log_decay), beta), "gated": (log_decay, beta)}


def part(rule, *axes):
    return [None if gate is None else gate[axes] for gate in rule]


@pytest.mark.parametrize("name", ["linear", "decay", "delta", "gated"])
def test_accepted_tokens_are_those_of_a_plain_pass(name):
    """Prompt, draft, and then tokens after the accepted ones; each request by itself."""
    q, k, v, log_decay, beta = inputs(9)
    rule = rules(log_decay, beta)[name]
    draft = (slice(None), slice(None), slice(5, 9))
    _, before = chunked(q[:, :, :5], k[:, :, :5], v[:, :, :5], *part(
        rule, slice(None), slice(None), slice(5)), size=2)
    context, states = every_state(q[draft], k[draft], v[draft], *part(rule, *draft), before)
    assert difference(context, recurrent(q, k, v, *rule)[0][:, :, 5:]) < 1e-12
    snapshot = accepted_state(states, ACCEPTED)
    again = recomputed_state(k[draft], v[draft], *part(rule, *draft), before, ACCEPTED)
    assert difference(snapshot, again) < 1e-12
    late = inputs(2, seed=20)
    next_rule = rules(late[3], late[4])[name]
    wrong = []
    for b, number in enumerate(ACCEPTED.tolist()):
        own = (b, slice(None), slice(5 + number))
        both = [torch.cat((old[own], new[b]), dim=1) for old, new in zip(
            (q, k, v), late[:3], strict=True)]
        gates = [None if old is None else torch.cat((old[own], new[b]), dim=1)
                 for old, new in zip(rule, next_rule, strict=True)]
        plain, end = recurrent(*both, *gates)
        tail = [x[b] for x in late[:3]], part(next_rule, b)
        served, last = recurrent(*tail[0], *tail[1], snapshot[b])
        assert difference(served, plain[:, -2:]) < 1e-12
        assert difference(last, end) < 1e-12
        kept, _ = recurrent(*tail[0], *tail[1], states[b, :, -1])
        wrong.append(difference(kept, plain[:, -2:]) > 1e-3)
    assert wrong == [True, True, False, True, True]  # request 2 accepts all of its draft


def test_gradients_pass_through_a_snapshot():
    values = [x.requires_grad_() for x in inputs(6)]
    later = (slice(None), slice(None), slice(2, 6))
    target = random(B, H, 6, DV, seed=30)
    loss = (recurrent(*values)[0] * target).sum()
    plain = torch.autograd.grad(loss, values)
    first, states = every_state(*(x[:, :, :4] for x in values))
    rest, _ = recurrent(*(x[later] for x in values), accepted_state(states, torch.full((B,), 2)))
    loss = (torch.cat((first[:, :, :2], rest), dim=2) * target).sum()
    served = torch.autograd.grad(loss, values)
    assert max(map(difference, plain, served)) < 1e-12


def test_window_of_the_short_convolution():
    window, x, late = (random(B, n, C, seed=n) for n in (W, N, 2))
    weight = random(C, 1, W + 1, seed=9)
    found = accepted_window(window, x, ACCEPTED)
    for b, number in enumerate(ACCEPTED.tolist()):
        row = torch.cat((window[b], x[b, :number], late[b])).mT
        plain = F.conv1d(row, weight, groups=C)[:, -2:]
        served = F.conv1d(torch.cat((found[b], late[b])).mT, weight, groups=C)
        assert difference(served, plain) < 1e-12


@pytest.mark.parametrize(("accepted", "error", "words"), [
    (torch.tensor([5, 0, 0, 0, 0]), ValueError, "from 0 to 4"),
    (torch.tensor([-1, 0, 0, 0, 0]), ValueError, "from 0 to 4"),
    (torch.tensor([1, 2]), ValueError, "one number for each request"),
    ([1, 2, 3, 4, 0], TypeError, "int64"),
    (torch.ones(5), TypeError, "int64")])
def test_what_does_not_fit_is_named(accepted, error, words):
    states, k = random(B, H, N + 1, D, DV, seed=1), random(B, H, N, D, seed=2)
    x, window = random(B, N, C, seed=3), random(B, W, C, seed=4)
    v, gate, state = random(B, H, N, DV, seed=5), -random(B, H, N, seed=6).abs(), states[:, :, 0]
    for call in (lambda: accepted_state(states, accepted),
                 lambda: recomputed_state(k, v, gate, None, state, accepted),
                 lambda: accepted_window(window, x, accepted)):
        with pytest.raises(error, match=words):
            call()


def test_window_and_inputs_have_the_same_channels():
    with pytest.raises(ValueError, match="window must be"):
        accepted_window(random(B, W, C, seed=1), random(B, N, C + 1, seed=2), ACCEPTED)
