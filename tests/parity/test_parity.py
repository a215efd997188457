"""Eleven programs, one function: outputs and gradients; and wrong programs are caught."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st

from utils import checks, masks, parity, reference
from utils.parity import ten, weights

TEN = {program.name: program for program in parity.programs()}
KERAS = TEN.pop("Keras")
FOLDED = TEN.pop("folded (TensorFlow)")
JAX = TEN.pop("JAX")  # it compiles for each shape
PROGRAMS = list(TEN.values())  # without TensorFlow, whose import takes longer than all tests here
CROSS, SELF = (parity.case(3, self_attention=same, causal=same) for same in (False, True))
EVERYTHING = ("out", "x", "memory", "W_q", "W_k", "W_v", "W_o", "b_q", "b_k", "b_v", "b_o")
WEIGHTS = EVERYTHING[3:]


@st.composite
def settings(draw, d_heads=(1, 2, 3, 5), shortest=1):
    """Draw a Case: any sizes, and for each query a random number of keys, 1 or more."""
    seed, batch, heads, n_q, n_k = (draw(st.integers(*ends)) for ends in (
        (0, 999), (1, 3), (1, 4), (1, 6), (shortest, 6)))
    case = parity.case(
        seed, self_attention=draw(st.booleans()), causal=draw(st.booleans()),
        padding=draw(st.booleans()), batch=batch, n_q=n_q, n_k=n_k, n_heads=heads,
        d_head=draw(st.sampled_from(d_heads)))
    if draw(st.booleans()):
        lens = np.random.default_rng(seed).integers(1, n_k + 1, size=case.keep.shape[:3])
        case = case._replace(keep=case.keep & masks.from_valid_lens(lens[:, 0], n_k))
    return case


def close(got, expected, dtype):
    assert list(got) == [name for name in expected if name in got]
    for name, array in got.items():
        assert (array.dtype, array.shape) == (np.dtype(dtype), expected[name].shape)
        assert checks.difference(array, expected[name]) <= checks.TOLERANCES[dtype], name


def agree(programs, case):
    expected = parity.expected(case)
    for program in programs:
        for dtype in parity.DTYPES:
            found = parity.run(program, case, dtype)
            close(found, expected, dtype)
            outputs_only = program.name in ("loops", "packed")
            assert list(found) == (["out"] if outputs_only else list(expected))


# --- cases

def test_a_case_is_random_and_the_same_each_time():
    def flat(case):
        return [x.tolist() for x in (case.x, case.memory, *case.weights.values(), case.keep,
                                     case.grad_out)]
    assert flat(parity.case(4)) == flat(parity.case(4)) != flat(parity.case(5))
    numbers = np.concatenate([x.ravel() for x in (
        CROSS.x, CROSS.memory, CROSS.grad_out,
        *(w * math.sqrt(12 if w.ndim == 2 else 1) for w in CROSS.weights.values()))])
    assert len(set(numbers.round(9))) == len(numbers)  # what shares a seed shares numbers


def test_the_sizes_of_a_case_are_pairwise_different():
    assert (CROSS.x.shape, CROSS.memory.shape) == ((2, 5, 12), (2, 7, 12))
    assert (CROSS.keep.shape, CROSS.grad_out.shape) == ((2, 1, 5, 7), (2, 5, 12))
    assert (SELF.x.shape, SELF.keep.shape, SELF.grad_out.shape) == (
        (2, 7, 12), (2, 1, 7, 7), (2, 7, 12))
    assert CROSS.n_heads == 3
    small = parity.case(batch=1, n_q=2, n_k=4, n_heads=5, d_head=3)
    assert (small.x.shape, small.memory.shape, small.n_heads) == ((1, 2, 15), (1, 4, 15), 5)


@pytest.mark.parametrize("self_attention", [False, True])
def test_the_masks_of_a_case(self_attention):
    def keep(**options):
        return parity.case(1, self_attention=self_attention, **options).keep

    n_q = 7 if self_attention else 5
    padding, causal = keep(), keep(causal=True, padding=False)
    lengths = padding[:, 0, 0].sum(axis=-1)
    assert 0 < min(lengths) < max(lengths) == 7
    assert (padding == (np.arange(7) < lengths[:, None, None, None])).all()
    assert (causal == (np.arange(7) <= np.arange(7 - n_q, 7)[:, None])).all()
    assert (keep(causal=True) == (causal & padding)).all()
    assert keep(padding=False).all()
    more_queries = parity.case(causal=True, padding=False, n_q=5, n_k=3).keep
    assert (more_queries == (np.arange(3) <= np.arange(5)[:, None])).all()


def test_memory_that_is_x_stays_x_in_another_dtype():
    assert SELF.memory is SELF.x
    assert CROSS.memory is not CROSS.x
    for case in (SELF, CROSS):
        single = case.astype("float32")
        assert (single.memory is single.x) == (case.memory is case.x)
        assert list(single.sides()) == list(case.sides())
        for array, same in zip((single.x, single.memory, single.grad_out,
                                *single.weights.values()),
                               (case.x, case.memory, case.grad_out, *case.weights.values()),
                               strict=True):
            assert array.dtype == np.float32
            assert np.array_equal(array, same.astype(np.float32))
        assert single.keep is case.keep
    assert list(SELF.sides()) == ["x"]
    assert list(CROSS.sides()) == ["x", "memory"]


def test_the_eight_cases_differ_in_side_and_mask():
    kinds = {(case.memory is case.x, not case.keep[..., 0, -1].any(),
              len(np.unique(case.keep[:, 0, -1], axis=0)) > 1) for case in parity.eight_cases()}
    assert len(kinds) == len(parity.eight_cases()) == 8


# --- what is expected

def test_the_expected_gradient_of_self_attention_is_the_sum_of_both_sides():
    direction = np.random.default_rng(1).standard_normal(SELF.x.shape)

    def loss(step):
        x = SELF.x + step * direction
        out, _ = reference.multi_head_attention(x, x, SELF.weights, SELF.n_heads, SELF.keep)
        return (out * SELF.grad_out).sum()

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    expected = parity.expected(SELF)
    assert list(expected) == ["out", "x", *WEIGHTS]
    assert abs((expected["x"] * direction).sum() - slope) < 1e-7 * abs(slope)


def test_expected_is_the_reference():
    expected = parity.expected(CROSS)
    out, _ = reference.multi_head_attention(*CROSS[:5])
    assert np.array_equal(expected.pop("out"), out)
    gradient = reference.multi_head_attention_gradient(*CROSS[:4], CROSS.grad_out, CROSS.keep)
    assert {name: g.tolist() for name, g in expected.items()} == {
        name: g.tolist() for name, g in gradient.items()}


# --- the eleven

def test_the_programs_are_eleven_and_import_no_framework():
    code = ("import sys; from utils import parity; "
            "print(*(p.name for p in parity.programs()), sep=', '); "
            "parity.run(parity.programs()[0], parity.case()); "
            "assert not {'torch', 'tensorflow', 'jax'} & set(sys.modules)")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         cwd=Path(__file__).parents[2])
    assert ran.stdout.strip() == (
        "loops, per head, view, einsum, packed, folded (TensorFlow), sequence first, JAX, "
        "SDPA, nn.MultiheadAttention, Keras")


@given(settings())
def test_programs_agree_over_random_settings(case):
    agree(PROGRAMS, case)


@pytest.mark.parametrize("program", PROGRAMS, ids=list(TEN))
def test_each_program_agrees_on_the_eight_cases(program):
    parity.table([program]).check()


def test_the_case_is_not_modified():
    before = [x.tolist() for x in (CROSS.x, CROSS.memory, CROSS.keep, *CROSS.weights.values())]
    for program in PROGRAMS:
        parity.run(program, CROSS)
    assert before == [x.tolist() for x in (CROSS.x, CROSS.memory, CROSS.keep,
                                           *CROSS.weights.values())]


def test_a_mask_for_each_head_is_honoured_by_the_programs_that_can_say_it():
    per_head = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.6
    per_head[..., 2] = True
    agree([TEN[name] for name in ("per head", "view", "SDPA", "nn.MultiheadAttention")],
          CROSS._replace(keep=per_head))


# --- prepared, to be timed

def check_prepared(program, case):
    """Check that the program, prepared, computes what it should, as often as it is run."""
    want, call = parity.expected(case)["out"], program.prepare(case)
    for _ in range(2):
        out = call()
        assert checks.dtype_name(out) == "float64"
        assert checks.difference(checks.to_numpy(out), want) <= 1e-12


@pytest.mark.parametrize("program", PROGRAMS, ids=list(TEN))
def test_a_prepared_program_computes_the_same(program):
    for case in (CROSS, SELF, CROSS._replace(keep=None), SELF._replace(keep=None)):
        check_prepared(program, case)


@pytest.mark.parametrize("program", PROGRAMS, ids=list(TEN))
def test_no_mask_is_a_mask_that_hides_nothing(program):
    for case in (CROSS, SELF):
        everything = case._replace(keep=np.ones_like(case.keep))
        want = parity.run(program, everything)
        for name, array in parity.run(program, case._replace(keep=None)).items():
            assert checks.difference(array, want[name]) <= 1e-12, name


def test_a_prepared_program_records_no_gradients_and_sees_x_itself():
    for program in (ten.sdpa(), parity.torch_function("view", ten.view)):
        assert not program.prepare(SELF)().requires_grad
        assert parity.run(program, SELF)["x"].any()
    seen = parity.torch_function("seen", lambda x, memory, W, n_heads, keep: x)
    assert np.shares_memory(seen.prepare(SELF)().numpy(), SELF.x)


def test_what_is_prepared_converts_nothing_when_it_runs(monkeypatch):
    converted = []
    program = parity.numpy_function("mine", lambda x, memory, params, n_heads, keep: params,
                                    lambda weights: converted.append(weights) or "params")
    call = program.prepare(CROSS)
    assert [call(), call(), len(converted)] == ["params", "params", 1]
    module = ten.sdpa().prepare(CROSS)
    monkeypatch.setattr(weights, "load", None)
    module()


def test_a_prepared_module_is_in_evaluation():
    def build(case):
        from utils.attention.torch import MultiHeadAttention
        return MultiHeadAttention(12, 3, dropout=0.9), weights.to_qkv_module(case.weights)

    check_prepared(parity.torch_module("dropout", build, lambda m, x, memory, case: m(
        x, memory, case.keep), weights.from_qkv_module), CROSS)


# --- wrong programs

def attend(x, memory, weights, n_heads, keep, *, scale=None, order="qkv", bias="qkvo",
           W_o=lambda W: W, mask=True):
    """Attend as an honest reader would, with one thing wrong on request."""
    sides = {"q": x, "k": memory, "v": memory}
    q, k, v = (sides[side] @ weights[f"W_{name}"]
               + (weights[f"b_{name}"] if name in bias else 0)
               for side, name in zip("qkv", order, strict=True))
    q, k, v = (side.unflatten(-1, (n_heads, -1)).transpose(1, 2) for side in (q, k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores.masked_fill(~keep, -math.inf) if mask else scores
    context = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    return context @ W_o(weights["W_o"]) + (weights["b_o"] if "o" in bias else 0)


def test_a_twelfth_program_takes_one_line():
    table = parity.table([*PROGRAMS, parity.torch_function("mine", attend)]).check()
    assert [row.program for row in table.rows] == [*TEN, "mine"]
    assert table.rows[-1].fp64_gradients < 1e-13


# What each fault leaves right. The gradient of b_o is the sum of the upstream gradient whatever is
# done before; that of b_v too, times W_o, as long as rows of weights sum to 1; that of b_k is zero.
FAULTS = {
    "no scale": ({"scale": 1.0}, {"b_k", "b_v", "b_o"}),
    "scale of d_model": ({"scale": 12 ** -0.5}, {"b_k", "b_v", "b_o"}),
    "q and k swapped": ({"order": "kqv"}, {"b_v", "b_o"}),
    "k and v swapped": ({"order": "qvk"}, {"b_o"}),
    "no b_q": ({"bias": "kvo"}, {"b_k", "b_v", "b_o"}),
    "no b_v": ({"bias": "qko"}, {*EVERYTHING} - {"out", "b_v", "W_o"}),
    "no b_o": ({"bias": "qkv"}, {*EVERYTHING} - {"out", "b_o"}),
    "W_o transposed": ({"W_o": lambda W: W.T}, {"b_k", "b_o"}),
    "mask forgotten": ({"mask": False}, {"b_k", "b_v", "b_o"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_program_is_named_with_all_that_is_wrong_in_it(name):
    options, right = FAULTS[name]
    quantities = {*EVERYTHING} - right
    wrong = parity.torch_function(name, lambda *args: attend(*args, **options))
    cases = [parity.case(seed) for seed in range(3)]
    table = parity.table([TEN["view"], wrong], cases)
    for dtype, tolerance in checks.TOLERANCES.items():
        if dtype in parity.DTYPES:
            gaps = table.differences[name, dtype]
            assert {key for key, gap in gaps.items() if gap > 1e3 * tolerance} == quantities
            assert all(gap <= tolerance for key, gap in gaps.items() if key not in quantities)
    with pytest.raises(AssertionError) as caught:
        table.check()
    double, single = str(caught.value).split("\n")
    gap = table.differences[name, "float64"]["out"]
    assert double.startswith(f"{name}, float64: out differs by {gap:.1e}")
    assert double.endswith("; tolerance 1e-12")
    assert single.startswith(f"{name}, float32: out differs by ")
    assert single.endswith("; tolerance 1e-05")
    for quantity in quantities - {"out"}:
        assert f"gradient of {quantity} differs by " in double
    assert table.rows[1].fp64_outputs == gap
    assert table.rows[1].fp64_gradients == max(
        [g for key, g in table.differences[name, "float64"].items() if key != "out"])


def test_the_bias_of_k_is_the_one_thing_that_may_be_missing():
    """It adds the same to all scores of a row, which softmax and its gradient do not see."""
    parity.table([parity.torch_function(
        "no b_k", lambda *args: attend(*args, bias="qvo"))]).check()


def test_gradients_under_the_wrong_names_are_caught():
    sdpa = ten.sdpa()

    def swapped(case):
        found = sdpa.results(case)
        return found | {"W_q": found["W_k"], "W_k": found["W_q"]}

    table = parity.table([parity.Program("swapped", swapped)], [CROSS])
    assert {name for name, gap in table.differences["swapped", "float64"].items()
            if gap > 1e-12} == {"W_q", "W_k"}
    with pytest.raises(AssertionError, match=r"^swapped, float64: gradient of W_q differs by "):
        table.check()


def test_weights_loaded_in_the_wrong_order_are_caught():
    def build(case):
        from utils.attention.torch import MultiHeadAttention
        params = weights.to_qkv_module(case.weights)
        params["W_qkv.weight"] = np.roll(params["W_qkv.weight"], 12, axis=0)
        return MultiHeadAttention(12, 3), params

    program = parity.torch_module("rolled", build, lambda m, x, memory, case: m(
        x, memory, case.keep), weights.from_qkv_module)
    assert parity.differences(program, CROSS)["out"] > 0.1


def test_a_number_that_is_not_one_is_not_overlooked():
    def blank(x, memory, weights, n_heads, keep):
        out = attend(x, memory, weights, n_heads, keep)
        return out + (math.nan if len(x) == 1 else 0)

    table = parity.table([parity.torch_function("blank", blank)], [CROSS, parity.case(batch=1)])
    assert math.isnan(table.rows[0].fp64_outputs)
    with pytest.raises(AssertionError, match=r"^blank, float64: out differs by nan"):
        table.check()
    assert "**nan**" in repr(table)


def test_modules_run_in_evaluation():
    def build(case):
        from utils.attention.torch import MultiHeadAttention
        return MultiHeadAttention(12, 3, dropout=0.9), weights.to_qkv_module(case.weights)

    program = parity.torch_module("dropout", build, lambda m, x, memory, case: m(
        x, memory, case.keep), weights.from_qkv_module)
    parity.table([program], [CROSS]).check()


# --- what a program must return

@pytest.mark.parametrize(("spoil", "error", "message"), [
    (lambda out: (out, out), TypeError, "out must be an array (2, 5, 12), got tuple"),
    (lambda out: out[:, :1], ValueError, "out must be (2, 5, 12), got (2, 1, 12)"),
    (lambda out: out.float(), TypeError, "out must be float64, the dtype of x, got float32"),
])
def test_what_is_no_output_is_refused_and_its_program_named(spoil, error, message):
    program = parity.torch_function("odd", lambda *args: spoil(attend(*args)))
    with raises(error, message):
        parity.run(program, CROSS)
    with pytest.raises(error) as caught:
        parity.run(program, CROSS)
    assert caught.value.__notes__ == ["in the program 'odd', float64"]
    numpy = parity.numpy_function("odd", lambda *args: spoil(torch.zeros(2, 5, 12).double()))
    with raises(error, message):
        parity.run(numpy, CROSS)


def test_float64_in_disguise_is_refused_where_float32_is_asked_for():
    program = parity.torch_function("double", lambda *args: attend(*args).double())
    parity.run(program, CROSS)
    with raises(TypeError, "out must be float32, the dtype of x, got float64"):
        parity.run(program, CROSS, "float32")


def test_a_weight_that_is_never_used_has_a_gradient_of_zero():
    program = parity.torch_function(
        "unused", lambda x, memory, W, n_heads, keep: x @ W["W_q"] * memory.sum())
    found = parity.run(program, CROSS)
    assert not found["W_o"].any()
    assert not found["b_q"].any()
    assert found["W_q"].any()


# --- the table

TABLE = parity.Table({
    ("a", "float64"): {"out": 3e-16, "x": 2e-15, "W_q": 4e-13},
    ("a", "float32"): {"out": 2e-7, "x": 3e-6, "W_q": 1e-6},
    ("b <i>", "float64"): {"out": 0.8312}, ("b <i>", "float32"): {"out": 2e-5},
})


def test_rows_hold_the_largest_differences():
    assert TABLE.rows == [("a", 3e-16, 4e-13, 2e-7, 3e-6), ("b <i>", 0.8312, None, 2e-5, None)]


def test_a_table_shows_bounds_and_no_rounding_error():
    assert repr(TABLE) == (
        "| program   | fp64 outputs   | fp64 gradients   | fp32 outputs   | fp32 gradients   |\n"
        "|:----------|:---------------|:-----------------|:---------------|:-----------------|\n"
        "| a         | ≤ 1e-12        | ≤ 1e-12          | ≤ 1e-5         | ≤ 1e-5           |\n"
        "| b <i>     | **0.8**        | —                | **2e-5**       | —                |")


def test_a_table_is_drawn_in_a_notebook():
    assert TABLE._repr_markdown_() == repr(TABLE)


def test_the_check_of_a_table():
    with raises(AssertionError, "b <i>, float64: out differs by 8.3e-01; tolerance 1e-12\nb "
                                "<i>, float32: out differs by 2.0e-05; tolerance 1e-05"):
        TABLE.check()
    good = parity.Table({key: gaps for key, gaps in TABLE.differences.items() if key[0] == "a"})
    assert good.check() is good


@pytest.mark.parametrize(("gap", "text"), [
    (None, "—"), (0.0, "≤ 1e-5"), (1e-5, "≤ 1e-5"), (1.01e-5, "**1e-5**"), (3.0, "**3**"),
    (1234.0, "**1e3**"), (math.nan, "**nan**"), (math.inf, "**inf**")])
def test_the_text_of_a_difference(gap, text):
    assert parity.bound(gap, 1e-5) == text


def test_a_table_takes_the_largest_difference_over_its_cases():
    cases = [CROSS, SELF, parity.case(8)]
    table = parity.table([TEN["SDPA"]], cases)
    for dtype in parity.DTYPES:
        gaps = [parity.differences(TEN["SDPA"], case, dtype) for case in cases]
        for name, largest in table.differences["SDPA", dtype].items():
            assert largest == max(found[name] for found in gaps if name in found)


# --- JAX

def test_jax_agrees_on_the_eight_cases_and_under_random_masks():
    parity.table([JAX]).check()
    per_head = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.6
    per_head[..., 2] = True
    agree([JAX], CROSS._replace(keep=per_head))


def test_jax_prepared_is_compiled_and_computes_the_same():
    for case in (CROSS, SELF, CROSS._replace(keep=None)):
        check_prepared(JAX, case)


def test_jax_without_a_mask_masks_nothing():
    want = parity.run(JAX, CROSS._replace(keep=np.ones_like(CROSS.keep)))
    for name, array in parity.run(JAX, CROSS._replace(keep=None)).items():
        assert checks.difference(array, want[name]) <= 1e-12, name


def test_a_wrong_function_of_jax_is_caught():
    from utils.attention.jax import multi_head_attention

    def inverted(params, x, memory, keep):
        return multi_head_attention(params, x, memory, ~keep)

    def frozen(params, x, memory, keep):
        import jax
        return multi_head_attention(params | {"W_k": jax.lax.stop_gradient(params["W_k"])},
                                    x, memory, keep)

    def swapped(grads):
        return weights.from_jax(grads | {"W_q": grads["W_k"], "W_k": grads["W_q"]})

    def wrong(function, back=weights.from_jax):
        program = parity.jax_function("wrong", function, weights.to_jax, back)
        return {name for name, gap in parity.differences(program, SELF).items() if gap > 1e-9}

    everything = {*EVERYTHING} - {"memory"}
    assert wrong(multi_head_attention) == set()
    assert wrong(inverted) == everything - {"b_o", "b_k"}
    assert wrong(frozen) == {"W_k"}
    assert wrong(multi_head_attention, swapped) == {"W_q", "W_k"}


# --- TensorFlow's two, last

def test_tensorflow_agrees_on_the_eight_cases():
    parity.table([FOLDED, KERAS]).check()


@pytest.mark.parametrize("program", [FOLDED, KERAS], ids=["folded", "keras"])
def test_tensorflow_prepared_is_a_graph_and_computes_the_same(program):
    # lengths for each example, which the folded program can say; no mask at all
    for case in (CROSS, SELF._replace(keep=None), CROSS._replace(keep=None)):
        check_prepared(program, case)
    assert "mul" in str(program.prepare(CROSS).graph.as_graph_def()).lower()


@given(settings())
def test_the_folded_program_agrees_over_random_settings(case):
    agree([FOLDED], case)


@pytest.mark.slow
# Keras 3.15 rounds 1 / sqrt(d) to float32, which is exact for 4 and 16; of one key it warns.
@given(settings(d_heads=(4, 16), shortest=2))
def test_all_but_jax_agree_over_random_settings(case):
    agree([*PROGRAMS, FOLDED, KERAS], case)


def test_keras_rounds_its_scale_to_float32():
    case = parity.case(d_head=5)
    rounded = float(np.float32(5 ** -0.5)) * 5 ** 0.5
    scaled = case._replace(weights=case.weights | {
        name: rounded * case.weights[name] for name in ("W_q", "b_q")})
    out = parity.run(KERAS, case)["out"]
    assert 1e-10 < checks.difference(out, parity.expected(case)["out"]) < 1e-7
    assert checks.difference(out, parity.expected(scaled)["out"]) <= 1e-12


def keras_build(case):
    import keras
    layer = keras.layers.MultiHeadAttention(3, 4, dtype=case.x.dtype.name)
    layer.build(case.x.shape, case.memory.shape)
    return layer, weights.to_keras(case.weights, 3)


def test_a_wrong_layer_is_caught():

    def build(case):
        layer, params = keras_build(case)
        return layer, [*params[2:4], *params[:2], *params[4:]]

    def call(layer, x, memory, case):
        return layer(x, memory, attention_mask=masks.to_keras(case.keep, 2, 5))

    swapped = parity.keras_layer("swapped", build, call, weights.from_keras)
    gaps = parity.differences(swapped, CROSS)
    assert {name for name, gap in gaps.items() if gap > 1e-3} >= {"out", "x", "W_q", "W_k"}
    assert {*gaps} == {*EVERYTHING}
    back = parity.keras_layer("back", keras_build, call,
                              lambda g: weights.from_keras([*g[2:4], *g[:2], *g[4:]]))
    assert {name for name, gap in parity.differences(back, CROSS).items() if gap > 1e-12} == {
        "W_q", "W_k", "b_q", "b_k"}


def test_a_layer_must_return_one_array():
    def call(layer, x, memory, case):
        return layer(x, memory, return_attention_scores=True)

    program = parity.keras_layer("two", keras_build, call, weights.from_keras)
    with raises(TypeError, "out must be an array (2, 5, 12), got tuple"):
        parity.run(program, CROSS)
