"""What a wrong argument is told, by its whole message."""

import math
from functools import partial
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import torch
from exact import raises

from utils import checks, reference
from utils.attention.grouped import GroupedAttention
from utils.attention.positions import check_angles
from utils.attention.ragged import ragged_attention
from utils.attention.state import state_bytes, without_padding
from utils.checks import (
    arguments,
    cache,
    compare,
    decoder,
    long_context,
    numbers,
    paged,
    ragged,
    sampling,
    state,
)
from utils.checks.causal import tiled_keep
from utils.masks import builders, conventions

ARRAY = "{} must be an array or a tensor, got {}"
TENSOR = "{} must be a PyTorch tensor, got {}"
INTEGER = "{} must be an integer, got {!r}"
FRACTIONS = "{} must hold floating-point numbers, got {}: the results are fractions"
AXES = "{} must have at least {} axes, got {}"
STARTS = ("{} must be (b + 1,): 0, then where each sequence ends, in order; got {}. From lengths "
          "(b,), call starts(lengths)")
PARENTS = "parents must be (i,), each -1 or the index of an earlier token, got "
SCALES = ("q must be (…, i, d), k_scale and v_scale (…, j, 1), got {}; heads of k and v that "
          "several heads of q share must be repeated")
TURNS = ("in original=100 tokens, the pairs of dimensions rotate 0.0159 to 15.9 times, so there is "
         "no pair between beta_slow={} and beta_fast={} rotations: is it another original, base or "
         "d?")
SLOWEST = 100 / (2 * math.pi * 1e4 ** (6 / 8))  # rotations of the last of four pairs
Q, K, V = torch.randn(2, 5, 4), torch.randn(2, 7, 4), torch.randn(2, 7, 3)
SCALE = torch.ones(2, 7, 1)
CACHE = SimpleNamespace(tables={"a": [0], "b": [2, 1]}, lengths={"a": 3, "b": 5}, widths=(4, 3),
                        sides=[torch.zeros(1, 2, 3, 4, 4), torch.zeros(1, 2, 3, 4, 3)],
                        dtype=torch.float32)


@pytest.mark.parametrize(("call", "arguments", "error", "message"), [
    (ragged.starts, ([0.0, 5.0],), TypeError, "row_starts must be integers, got float64"),
    (ragged.starts, ([0],), ValueError, STARTS.format("row_starts", [0])),
    (ragged.both_starts, ([0, 3], [0.0, 3.0], False), TypeError,
     "k_starts must be integers, got float64"),
    (ragged.both_starts, ([0, 3], [0, 4, 3], False), ValueError,
     STARTS.format("k_starts", [0, 4, 3])),
    (ragged.both_starts, ([0, 2, 5], [0, 2, 4], True), ValueError,
     "sequence 1 has 3 queries and 2 keys: with causal=True, the last query has the position of "
     "the last key, so there must be at least as many keys"),
    (ragged.ragged, ([1.0], K, V, [0, 5], [0, 7], False), TypeError, ARRAY.format("q", "list")),
    (ragged.ragged, (Q, K, V[0], [0, 5], [0, 7], False), ValueError,
     "v must be (heads, tokens, d), all sequences in one row, got (7, 3)"),
    (ragged.ragged, (Q.numpy(), K, V, [0, 5], [0, 7], False), TypeError,
     TENSOR.format("q", "ndarray")),
    (ragged.ragged, (Q, K, V, [0, 2, 4], [0, 1, 7], False), ValueError,
     "q_starts ends at 4, but q has 5 tokens"),
    (ragged.ragged, (Q, K, V, [0, 2, 5], [0, 7, 8], False), ValueError,
     "k_starts ends at 8, but k has 7 tokens"),
    (ragged.ragged, (Q[:, :0], K, V, [0, 0], [0, 7], False), ValueError,
     "q must have at least one token"),
    (ragged.parents, ([-1, 1],), ValueError, f"{PARENTS}[-1, 1]; token 1 has parent 1"),
    (ragged.parents, ([],), TypeError, "parents must be integers, got float64"),
    (ragged.parents, (np.zeros(0, int),), ValueError, f"{PARENTS}[]"),
    (ragged.parents, (np.full((2, 1), -1),), ValueError, f"{PARENTS}[[-1], [-1]]"),
    (paged.known, (CACHE.tables, "c"), ValueError,
     "'c' is no sequence of this cache; it has 'a', 'b'"),
    (paged.known, ({}, "c"), ValueError, "'c' is no sequence of this cache; it has none"),
    (paged.free_blocks, (3, 2), ValueError, "new blocks needed: 3, free blocks: 2; release a "
     "sequence, or create the cache with more blocks"),
    (paged.written, (CACHE, 0, "a", K[:, :1].double(), V[:, :1]), TypeError,
     "the cache holds torch.float32, but k is torch.float64: convert it, or create the cache with "
     "its dtype"),
    (paged.finite, (torch.tensor([1.0, float("nan")]),), ValueError,
     "x must be finite: NaN and infinity have no code of 8 bits"),
    (paged.scales, ([1.0], SCALE, SCALE), TypeError, ARRAY.format("q", "list")),
    (paged.scales, (Q, [1.0], SCALE), TypeError, ARRAY.format("k_scale", "list")),
    (paged.scales, (Q, SCALE, [1.0]), TypeError, ARRAY.format("v_scale", "list")),
    (paged.scales, (Q[0, 0], SCALE, SCALE), ValueError, AXES.format("q", 2, (4,))),
    (paged.scales, (Q.numpy(), SCALE, SCALE), TypeError, TENSOR.format("q", "ndarray")),
    (paged.scales, (Q, SCALE, SCALE[:1]), ValueError,
     SCALES.format("(2, 5, 4), (2, 7, 1), (1, 7, 1)")),
    (paged.scales, (Q[0], SCALE, SCALE), ValueError,
     SCALES.format("(5, 4), (2, 7, 1), (2, 7, 1)")),
    (paged.scales, (Q, K, K), ValueError, SCALES.format("(2, 5, 4), (2, 7, 4), (2, 7, 4)")),
    (paged.unshared, ([1, 3, 2, 1], [0, 2, 1]), ValueError,
     "block 1 has 3 users: writing would change the other sequences; call reserve(name, n) first, "
     "which copies it"),
    (decoder.pairs, (K, 0), ValueError, "n_heads must be at least 1, got 0"),
    (decoder.pairs, (torch.ones(()), 1), ValueError,
     "the rows of W must be those of n_heads=1 heads with an even d, got ()"),
    (decoder.pairs, (torch.ones(0, 3), 1), ValueError,
     "the rows of W must be those of n_heads=1 heads with an even d, got (0, 3)"),
    (decoder.state, ({"W": SimpleNamespace(shape=(2, 3))},), TypeError,
     "W must be a tensor or an array, got SimpleNamespace"),
    (state.tensor, ([1.0], "q"), TypeError, ARRAY.format("q", "list")),
    (state.tensor, (Q[0], "q", 3), ValueError, AXES.format("q", 3, (5, 4))),
    (state.gates, ([1.0],), TypeError, ARRAY.format("k", "list")),
    (partial(state.gates, log_decay=[1.0]), (K,), TypeError, ARRAY.format("log_decay", "list")),
    (state.gates, (K[0, 0],), ValueError, AXES.format("k", 2, (4,))),
    (state.inputs, (K, K, V, None, None, [0.0]), TypeError, ARRAY.format("state", "list")),
    (state.inputs, (K, K, V, None, None, torch.zeros(2, 4, 3).double()), TypeError,
     "k is float32, but state is float64: convert one of them"),
    (state.real, (torch.ones(2, 7).bool(), [1.0]), TypeError, ARRAY.format("k", "list")),
    (sampling.end, ([True],), TypeError, "end must be an integer, got True"),
    (sampling.end, ([2, -1],), ValueError, "end must be at least 0, got -1"),
    (long_context.bounds, ("low", 1, "high", "4"), TypeError, "high must be a number, got '4'"),
    (long_context.bounds, ("low", 1, "high", 0), ValueError,
     "high must be greater than 0 and finite, got 0"),
    (conventions.from_additive, (np.array(["a"]),), TypeError,
     "an additive mask contains numbers, 0 and -inf, got <U1"),
    (conventions.from_additive, (np.array([True]),), TypeError,
     "an additive mask contains 0 (may attend) and -inf (masked), got bool: if True means may "
     "attend, it is keep already"),
    (conventions.to_torch_mha, (np.ones((2, 1, 3, 4), bool), 0), ValueError,
     "n_heads must be at least 1, got 0"),
    (conventions.from_torch_mha, (np.ones((2, 3, 4), bool), 0), ValueError,
     "n_heads must be at least 1, got 0"),
    (builders.band, ([0.0], 3), TypeError, "positions must be integers, got float64"),
    (builders.band, ([0], 3, 1.5), TypeError, INTEGER.format("left", 1.5)),
    (builders.band, ([0], 3, 1, 1.5), TypeError, INTEGER.format("right", 1.5)),
    (builders.band, ([0], 0), ValueError, "n_k must be at least 1, got 0"),
    (arguments.heads, ([1.0], 2), TypeError, "expected an array or a tensor, got list"),
    (compare.check_shapes, ("b i", [1.0]), TypeError, "array 1 must be (b, i), got list"),
    (numbers.layer, (8, 2, 0.0, 1.5), TypeError, INTEGER.format("d_in", 1.5)),
    (numbers.layer, (8, 2, 0.0, None, 1.5), TypeError, INTEGER.format("d_out", 1.5)),
    (numbers.layer, (8, 2, 1.0), ValueError, "dropout must be 0 or more and less than 1, because "
     "it is a probability, got 1.0"),
    (numbers.layer, (6, 5), ValueError, "d_model=6 is not divisible by n_heads=5 (remainder 1); "
     "nearest divisors: 1, 2, 3, 6"),
    (cache.group, (6, 4), ValueError, "n_kv_heads must divide n_heads=6, got n_kv_heads=4; "
     "possible: 1, 2, 3, 6"),
    (checks.differences, (np.array(["a"]), np.ones(1)), TypeError,
     "got must be an array of real numbers, got <U1"),
    (checks.differences, (np.ones(1), np.array(["a"])), TypeError,
     "expected must be an array of real numbers, got <U1"),
    (checks.differences, (np.ones(2), np.ones(3)), ValueError,
     "shapes differ: got (2,), expected (3,)"),
    (checks.check_close, (np.ones(1), np.array(["a"])), TypeError,
     "expected must be an array of real numbers, got <U1"),
    (arguments.per_head, (Q, K.double(), K.double(), 2), TypeError,
     "q is float32, but k is float64: convert one of them"),
    (arguments.per_head, (Q, K, K[:, :5], 2), ValueError,
     "k and v must have equally many keys (axis -2): k has 7, v has 5"),
    (tiled_keep, (Q, K, V, None, False, 4), ValueError,
     "array 1 must be (b, h, i, d), got (2, 5, 4)"),
    (long_context.yarn, (8, 1e4, 2, 100, 32, 100 / (2 * math.pi)), ValueError, TURNS.format(
        100 / (2 * math.pi), 32)),
    (long_context.yarn, (8, 1e4, 2, 100, SLOWEST, SLOWEST / 2), ValueError, TURNS.format(
        SLOWEST / 2, SLOWEST)),
    (checks.array, (np.ones(2, complex), "x"), TypeError, "x must hold floating-point numbers, got "
     "complex128; its real part alone would be another array"),
    (checks.array, (SimpleNamespace(shape=(2,)), "x"), TypeError,
     ARRAY.format("x", "SimpleNamespace")),
    (checks.sides, (Q.numpy(), K[:, :0].numpy(), V[:, :0].numpy()), ValueError,
     "k must have at least one key, got (2, 0, 4)"),
    (checks.sides, (Q, K, V[:, :5]), ValueError,
     "k and v must have equally many keys (axis -2): k has 7, v has 5"),
    (checks.sides, (Q, K[:1], V[:1]), ValueError, "q, k and v must agree in the axes before the "
     "last two, got q (2, 5, 4), k (1, 7, 4), v (1, 7, 3)"),
    (checks.inputs, (torch.nn.Linear(4, 3), K, [1.0]), TypeError, ARRAY.format("memory", "list")),
    (check_angles, ([1.0], SCALE, SCALE), TypeError, ARRAY.format("x", "list")),
    (check_angles, (torch.ones(4), torch.ones(2), torch.ones(2)), ValueError,
     AXES.format("x", 2, (4,))),
    (state_bytes, (0, 1, 1, 1, 1), ValueError, "layers must be at least 1, got 0"),
    (state_bytes, (1, 1, 0, 1, 1), ValueError, "d must be at least 1, got 0"),
    (state_bytes, (1, 1, 1, 1, 0), ValueError, "width must be at least 1, got 0"),
    (GroupedAttention, (0, 2, 1, None, True, 4), ValueError, "d_model must be at least 1, got 0"),
    (GroupedAttention, (8, 0, 1, None, True, 4), ValueError, "n_heads must be at least 1, got 0"),
    (GroupedAttention, (8, 2, 1, None, True, 0), ValueError, "d_head must be at least 1, got 0"),
    (without_padding, (torch.ones(2, 3, 7, 4), torch.ones(2, 7), torch.ones(2, 7).bool()),
     ValueError, "log_decay must be (…, i), one number for each token of k: (2, 3, 7), got (2, 7)"),
    (ragged_attention, (Q, K[:, :3], V[:, :3], [0, 5], [0, 3]), ValueError,
     "sequence 0 has 5 queries and 3 keys: with causal=True, the last query has the position of "
     "the last key, so there must be at least as many keys"),
])
def test_what_does_not_fit_is_named(call, arguments, error, message):
    with raises(error, message):
        call(*arguments)


def test_numpy_arrays_may_differ_in_precision_and_tensors_may_not():
    single, double = np.ones((2, 3), np.float32), np.ones((2, 3))
    assert checks.same_kind(q=single, k=double) is None
    with raises(TypeError, "q is float32, but k is float64: convert one of them"):
        checks.same_kind(q=torch.as_tensor(single), k=torch.as_tensor(double))
    with raises(TypeError, "q is a NumPy array, but k is SimpleNamespace: convert one of them"):
        checks.same_kind(q=double, k=SimpleNamespace(shape=(2, 3), dtype="float64"))
    with raises(TypeError, "q is SimpleNamespace, but k is a NumPy array: convert one of them"):
        checks.same_kind(q=SimpleNamespace(shape=(2, 3), dtype="float64"), k=double)


def test_what_the_smallest_cases_give():
    assert long_context.rotated(8, 10_000.0) == 8
    assert state.logarithms(torch.ones(0)) is None
    assert reference.softmax(np.ones((2, 0))).shape == (2, 0)
    assert checks.differences(np.ones((2, 1)), np.ones(1)).tolist() == [[0], [0]]
    assert ragged.ragged(Q, K, V, [0, 0, 5], [0, 3, 7], False) == [(slice(0, 5), slice(3, 7))]
    half = np.array([0, -math.inf], ml_dtypes.bfloat16)
    assert conventions.from_additive(half).tolist() == [True, False]


def test_a_compiled_program_does_not_look_at_the_values_of_a_decay():
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, backend="eager")
    def checked(log_decay):
        state.logarithms(log_decay)
        return log_decay + 1
    assert checked(torch.tensor([0.5])).item() == 1.5  # without compiling, 0.5 raises
