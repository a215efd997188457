"""The formulas of what attention costs are what counters count, to the last operation and byte."""

import math
import sys

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from utils.attention.heads import merge_heads, split_heads
from utils.measure import costs
from utils.measure.counters import peak_bytes

RNG = np.random.default_rng(0)
SIZES = [(int(RNG.integers(2, 200)), int(h) * int(RNG.integers(2, 30)), int(h))
         for h in RNG.integers(2, 9, size=6)]


def steps(n, d_model, n_heads, device="meta"):
    """Return {step: what it computes}, each from tensors that are there before."""
    x, W, qkv = (torch.randn(*shape, device=device) for shape in (
        (1, n, d_model), (4, d_model, d_model), (3, 1, n, d_model)))
    q, k, v = (split_heads(side, n_heads) for side in qkv)
    scores = torch.randn(1, n_heads, n, n, device=device)
    out = torch.randn(1, n, d_model, device=device)
    return {"projections": lambda: [x @ W[n] for n in range(3)],
            "scores": lambda: q @ k.mT / math.sqrt(q.shape[-1]),
            "softmax": lambda: scores.softmax(dim=-1),
            "context": lambda: merge_heads(scores @ v),
            "output": lambda: out @ W[3]}


def program(n, d_model, n_heads, device="meta"):
    """Return a callable that runs the whole program, and its inputs."""
    x = torch.randn(1, n, d_model, device=device)
    W = torch.randn(4, d_model, d_model, device=device)

    def run():
        q, k, v = (split_heads(x @ W[side], n_heads) for side in range(3))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1)
        context = weights @ v
        return merge_heads(context) @ W[3]

    return run, (x, W)


@pytest.mark.parametrize("size", SIZES)
def test_operations_are_those_that_pytorch_counts_step_by_step(size):
    counted = {}
    for name, step in steps(*size).items():
        with FlopCounterMode(display=False) as counter:
            step()
        counted[name] = counter.get_total_flops()
    assert counted.pop("softmax") == 0   # matrix products only
    assert counted == costs.flops(*size[:2])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_peak_is_that_of_the_tensors_alive(size, device):
    run, inputs = program(*size, device)
    assert peak_bytes(run, *inputs) == 4 * sum(costs.held(*size).values())


@pytest.mark.parametrize("size", SIZES)
def test_traffic_is_what_each_step_reads_and_writes(size):
    wanted = {name: 4 * numbers for name, numbers in costs.traffic(*size).items()}
    assert {name: costs.moved(step) for name, step in steps(*size).items()} == wanted
    for device in ("cpu", "meta"):
        assert costs.moved(program(*size, device)[0]) == sum(wanted.values())


def test_arithmetic_crosses_at_twice_d_model_and_memory_at_three_times_d_head():
    for _, d_model, n_heads in SIZES:
        part = costs.flops(2 * d_model, d_model)
        assert part["scores"] + part["context"] == part["projections"] + part["output"]
        held = costs.held(3 * d_model // n_heads, d_model, n_heads)
        assert held["rows"] == held["matrices"]


@pytest.mark.parametrize(("a", "b", "n"), [(6e-6, 2e-8, 300), (1e-3, 0, math.inf), (0, 1e-9, 0)])
def test_the_crossing_of_a_program_is_that_of_its_two_terms(a, b, n):
    lengths = np.array([128, 512, 1024, 8192])
    found = costs.crossing(lengths, a * lengths + b * lengths**2)
    assert found == pytest.approx(n, abs=1e-6) or (found > 1e9 and n == math.inf)


def test_a_crossing_is_fitted_to_relative_errors():
    lengths = 2 ** np.arange(7, 14)
    seconds = 6e-6 * lengths + 2e-8 * lengths**2
    noise = 1 + 0.1 * (-1.0) ** np.arange(7)   # 10 % up and down, at short lengths and at long ones
    assert 200 < costs.crossing(lengths, seconds * noise) < 420
    assert costs.crossing([100, 200], [1, 0.5]) == math.inf


X = torch.randn(5, 7)


@pytest.mark.parametrize(("run", "numbers"), [
    (lambda: X + X.clone(), 2 * 35 + 3 * 35),
    (lambda: X.mT.reshape(35)[2:], 2 * 35),      # mT is a view, reshape copies, [2:] is a view
    (lambda: X.view(35), 0),
    (lambda: X.clone().mul_(2), 2 * 35 + 2 * 35),  # in place, it reads and writes all the same
    (lambda: X + torch.ones(7).expand(5, 7), 7 + 35 + 7 + 35),
    (lambda: X.double(), 35 + 2 * 35),
])
def test_traffic_of_single_operations(run, numbers):
    assert costs.moved(run) == 4 * numbers


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell")
def test_fresh_memory_comes_in_new_pages_and_used_memory_does_not():
    used = torch.ones(2**24)  # 64 MiB: at least 32 pages, were they of 2 MiB
    assert costs.new_pages(lambda: torch.ones(2**24)) >= 32
    assert costs.new_pages(lambda: used.add_(1)) < 32
