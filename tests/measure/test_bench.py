"""`make bench`: what it measures, what it writes, what it refuses; never how fast anything is."""

import copy
import json
import math
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from notebook_page import ROOT

from scripts import (
    bench,
    bench_fast,
    bench_grouped,
    bench_machine,
    bench_rows,
    bench_sweep,
    bench_tables,
)
from utils import checks, reference
from utils.measure import results, timing
from utils.measure.counters import Allocations

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read from Unix")
# PyTorch's compiler is slow, and warns of what it uses itself.
COMPILES = (pytest.mark.slow, pytest.mark.filterwarnings("ignore"))
SHAPE = (2, 12, 3)  # batch, d_model, n_heads


def same_spread(calls, repeats, pause=0):
    """Stand in for ``bench_rows.measured``: every program is run once and takes a second."""
    for call in calls.values():
        call()
    return {name: {"median": 1.0, "low": 0.5, "high": 2.0, "least": 0.25, "repeats": repeats}
            for name in calls}


@pytest.fixture
def one_second(monkeypatch):
    monkeypatch.setattr(bench_rows, "measured", same_spread)


# --- spreads, memory

def test_a_spread_has_the_median_the_quartiles_and_the_least():
    assert bench_rows.spread([5.0, 1.0, 2.0, 8.0, 3.0]) == {
        "median": 3.0, "low": 2.0, "high": 5.0, "least": 1.0, "repeats": 5}


def test_each_program_is_run_so_many_times_and_once_more():
    runs = []
    found = bench_rows.measured({"a": lambda: runs.append("a"), "b": lambda: runs.append("b")}, 3,
                                pause=0)
    assert sorted(runs) == ["a"] * 4 + ["b"] * 4
    assert {name: spread["repeats"] for name, spread in found.items()} == {"a": 3, "b": 3}
    assert all(spread["least"] > 0 for spread in found.values())


def test_floats_are_rounded_to_four_digits_wherever_they_stand():
    tree = {"a": [1234567.0, {"b": 0.000123456}], "n": 123456, "c": None, "d": "1.23456"}
    assert bench_rows.rounded(tree) == {
        "a": [1235000.0, {"b": 0.0001235}], "n": 123456, "c": None, "d": "1.23456"}
    assert bench_rows.rounded((1.23456,)) == [1.235]


def test_memory_that_is_added_is_a_difference_of_peaks_or_not_to_be_seen(monkeypatch):
    monkeypatch.setattr(bench_rows, "peak", {"base": 100.0, "more": 130.5, "same": 100.1}.get)
    assert bench_rows.added("more", "base") == 30.5
    assert bench_rows.added("same", "base") is None


# --- the machine

def test_the_machine_says_what_is_installed():
    machine = bench_machine.machine("cpu")
    assert machine["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert machine["numpy"] == np.__version__
    assert machine["threads"] == torch.get_num_threads()
    assert machine["cores"] >= 1
    assert machine["gibibytes"] == round(bench_machine.mebibytes() / 1024, 1) > 0.5
    assert machine["processor"]
    assert machine["device"] == "cpu"
    assert bench_machine.installed("no such package", "numpy") == np.__version__
    assert bench_machine.installed("no such package") is None


def test_a_product_of_matrices_is_two_operations_for_each_of_n_cubed(one_second):
    roof = bench_machine.product((3, 5), 2, "cpu")
    assert roof["what"] == "float32 matrix product, 5 × 5"
    assert [roof[key] for key in ("median", "low", "high", "best")] == [250, 125, 500, 1000]


def test_the_triad_counts_three_arrays(one_second):
    roof = bench_machine.triad(2, 4, "cpu")
    assert roof["what"].startswith("out = a + 2 b, arrays of 2 MiB")
    assert roof["median"] == 3 * 2 * 2**20
    assert (roof["low"], roof["high"], roof["best"]) == (
        roof["median"] / 2, 2 * roof["median"], 4 * roof["median"])
    assert roof["repeats"] == 4


# --- the sweep

def expected(n):
    """Return what the programs of the sweep must compute, in float64."""
    held = []
    prepare = {"": held.append}
    original = bench_sweep.all_programs
    bench_sweep.all_programs = lambda: prepare
    try:
        bench_sweep.prepared("", n, *SHAPE)
    finally:
        bench_sweep.all_programs = original
    case = held[0]
    return reference.multi_head_attention(*case[:4])[0]


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=COMPILES if name == bench_sweep.COMPILED else ())
    for name in bench_sweep.all_programs()])
def test_every_program_of_the_sweep_computes_the_equation(name):
    if name == bench_sweep.COMPILED and not shutil.which("c++"):
        pytest.skip("compiled programs need a C++ compiler")
    call = bench_sweep.prepared(name, 7, *SHAPE)
    for _ in range(2):
        out = call()
        assert checks.dtype_name(out) == "float32"
        assert checks.difference(checks.to_numpy(out), expected(7)) < 1e-5
    if name == bench_sweep.COMPILED:  # the compiler knows the equation
        with torch.profiler.profile() as seen:
            call()
        assert any("scaled_dot_product" in event.key for event in seen.key_averages())


def test_gradients_are_recorded_in_one_program_only():
    recording = {name for name, prepare in bench_sweep.all_programs().items()
                 if name not in (*bench_sweep.NOT_TORCH, bench_sweep.COMPILED)
                 and bench_sweep.prepared(name, 5, *SHAPE)().requires_grad}
    assert recording == {"nn.MultiheadAttention, gradients on"}


def run_sweep(monkeypatch, takes, sizes, adds=None, memory=2**15):
    """Sweep over programs that take the seconds ``takes(name, n)`` and add so many MiB."""
    names = {"a": 1, "b": 1, "late": 1}
    monkeypatch.setattr(bench_sweep, "all_programs", lambda: names)
    monkeypatch.setattr(bench_sweep, "prepared",
                        lambda name, n, *shape: lambda: monkeypatch.setitem(now, name, n))
    monkeypatch.setattr(bench_machine, "mebibytes", lambda: memory)
    now, asked = {}, []

    def turns(calls, repeats, pause=0):
        for call in calls.values():
            call()
        asked.append(repeats)
        return {name: [takes(name, now[name])] * repeats for name in calls}
    monkeypatch.setattr(bench_sweep.timing, "turns", turns)
    monkeypatch.setattr(bench_sweep.Sweep, "mebibytes", lambda self, n, calls: {
        name: adds and adds(name, n) for name in calls})
    rows, left_out = bench_sweep.measure(sizes)
    return rows, left_out, asked


SIZES = bench_sweep.QUICK | {"n": (2, 4, 8, 16), "from": {"late": 8, "": 2}, "repeats": (2, 9),
                             "memory": (), "memory_from": 2}


def test_programs_begin_where_they_are_told(monkeypatch):
    rows, left_out, _ = run_sweep(monkeypatch, lambda name, n: 1e-3, SIZES)
    assert [(row["program"], row["n"]) for row in rows] == [
        ("a", 2), ("b", 2), ("a", 4), ("b", 4), ("a", 8), ("b", 8), ("late", 8),
        ("a", 16), ("b", 16), ("late", 16)]
    assert left_out == []


def test_what_would_take_too_long_is_left_out_and_named(monkeypatch):
    rows, left_out, _ = run_sweep(monkeypatch, lambda name, n: n**2 if name == "b" else 0.1, SIZES)
    assert [row["n"] for row in rows if row["program"] == "b"] == [2, 4]
    assert left_out == [
        {"program": "b", "n": 8, "why": "one run would take about 64 s"},
        {"program": "b", "n": 16, "why": "one run would take about 256 s"}]


def test_what_would_take_too_much_memory_is_left_out_and_named(monkeypatch):
    _, left_out, _ = run_sweep(monkeypatch, lambda name, n: 1e-3, SIZES,
                               lambda name, n: 1024 * n if name == "a" else None)
    assert left_out == [{"program": "a", "n": 8, "why": "it would take about 16 GiB"},
                        {"program": "a", "n": 16, "why": "it would take about 64 GiB"}]
    _, small, _ = run_sweep(monkeypatch, lambda name, n: 1e-3, SIZES,
                            lambda name, n: 1024 * n if name == "a" else None, memory=2**13)
    assert small[0] == {"program": "a", "n": 4, "why": "it would take about 8 GiB"}


def test_only_the_compiled_program_may_fail(monkeypatch):
    def prepared(name, n, *shape):
        if name == failing:
            raise RuntimeError("no compiler\nat all")
        return lambda: None
    monkeypatch.setattr(bench_sweep, "all_programs", lambda: {"a": 1, bench_sweep.COMPILED: 1})
    monkeypatch.setattr(bench_sweep, "prepared", prepared)
    failing, sizes = bench_sweep.COMPILED, SIZES | {"n": (2,), "memory_from": 8}
    rows, left_out = bench_sweep.measure(sizes)
    assert [row["program"] for row in rows] == ["a"]
    assert left_out == [{"program": failing, "n": 2,
                         "why": "it cannot be compiled here: no compiler"}]
    failing = "a"
    with pytest.raises(RuntimeError, match="no compiler"):
        bench_sweep.measure(sizes)


def test_the_gpu_gets_only_what_runs_in_pytorch():
    sweep = bench_sweep.Sweep(SIZES, "cuda")
    assert {name for name in bench_sweep.all_programs() if sweep.too_much(name)} == {
        "loops", "packed", "folded (TensorFlow)", "Keras"}


@pytest.mark.parametrize("name", [name for name in bench_sweep.all_programs() if name not in (
    *bench_sweep.NOT_TORCH, bench_sweep.COMPILED)])
def test_a_program_stays_on_the_device_it_was_prepared_on(name):
    with torch.device("meta"):
        call = bench_sweep.prepared(name, 7, *SHAPE)
    assert (call().device.type, call().shape) == ("meta", (2, 7, 12))


def test_the_other_parts_stay_on_their_device():
    with torch.device("meta"):
        fast = {name: bench_fast.prepared(name, (2, 5, 16), True) for name in bench_fast.NAMES
                if name != "Keras"}
        grouped = bench_grouped.attention_calls(bench_grouped.QUICK, 16, 16)
    assert {side.device.type for call in fast.values() for side in call()} == {"meta"}
    assert {call().device.type for call in grouped.values()} == {"meta"}


@pytest.mark.slow
def test_memory_of_the_sweep_is_that_of_the_length():
    """The program `view` holds scores before and after the softmax, the tiled one neither."""
    sweep = bench_sweep.Sweep(SIZES | {"batch": 2, "d_model": 12, "n_heads": 3})
    added = sweep.mebibytes(1600, {"view": None, "tiled": None})
    weights = 2 * 3 * 1600**2 * 4 / 2**20
    assert 1.8 * weights < added["view"] < 2.5 * weights
    assert added["tiled"] < 0.4 * weights


# --- the fast path

def test_the_fast_path_is_measured_in_both_passes(one_second, monkeypatch):
    monkeypatch.setattr(bench_fast, "mebibytes", lambda runs: [
        n / 8 + backward for _, (_, n, _), backward in runs])
    rows = bench_fast.measure(bench_fast.QUICK | {"settings": [[2, 16, 32, 3]], "lengths": (48,)})
    assert len(rows) == 2 * len(bench_fast.NAMES) + 2
    assert {row["pass"] for row in rows} == {"forward", "forward + backward"}
    assert all((row["batch"], row["n"], row["d_model"]) == (2, 16, 32) for row in rows[:-2])
    assert [row["mebibytes"] for row in rows[:-2] if row["program"] == "ours"] == [2.0, 3.0]
    assert {row["mebibytes"] for row in rows[:-2] if row["program"] != "ours"} == {None}
    assert {row["seconds"]["repeats"] for row in rows[:-2]} == {3}
    assert [(row["program"], row["n"], row["seconds"], row["mebibytes"]) for row in rows[-2:]] == [
        ("ours", 48, None, 6.0), ("ours", 48, None, 7.0)]


def test_weights_beyond_a_gibibyte_are_left_out():
    left = {setting: [name for name in bench_fast.NAMES if bench_fast.too_large(name, setting)]
            for setting in bench_fast.SETTINGS}
    assert left.pop((1, 8192, 256)) == ["naive", "seed style"]
    assert not any(left.values())


def test_programs_of_the_fast_path_agree():
    """Those that hold their weights under the same names, once these are the same."""
    found = bench_fast.torch_programs(16)
    ours, x = found["ours"][0], torch.randn(2, 5, 16)
    found["naive"][0].load_state_dict(ours.state_dict())
    by_hand, seed, layer = (found[name][0] for name in ("SDPA by hand", "seed style", "nn.MHA"))
    with torch.no_grad():
        for theirs, mine in ((by_hand.qkv, ours.W_qkv), (by_hand.out, ours.W_o),
                             (seed.W_o, ours.W_o), (layer.out_proj, ours.W_o)):
            theirs.load_state_dict(mine.state_dict())
        layer.in_proj_weight.copy_(ours.W_qkv.weight)
        layer.in_proj_bias.copy_(ours.W_qkv.bias)
        for W, weight, bias in zip((seed.W_q, seed.W_k, seed.W_v), ours.W_qkv.weight.chunk(3),
                                   ours.W_qkv.bias.chunk(3), strict=True):
            W.weight.copy_(weight)
            W.bias.copy_(bias)
        want = ours(x)
        for name, (module, call) in found.items():
            assert checks.difference(call(module, x), want) < 1e-5, name


# --- heads that share keys

@pytest.mark.parametrize("what", bench_grouped.cases(bench_grouped.QUICK))
def test_what_is_timed_together_computes_the_same(what):
    sizes = bench_grouped.QUICK
    calls = bench_grouped.cases(sizes)[what]()
    if what.startswith("CausalAttention"):
        assert set(calls) == {"no window", "window of 4"}
        return
    with torch.no_grad():
        outs = {name: call() for name, call in calls.items()}
    pairs = ([("Cache", "PreallocatedCache"),
              ("Cache, full heads", "PreallocatedCache, full heads")]
             if "token" in what else [("ours", name) for name in calls if name != "ours"])
    assert len(calls) == 4
    for one, other in pairs:
        assert checks.difference(outs[one], outs[other]) < 1e-5, other
        assert outs[one].abs().max() > 0.01


def test_a_cache_has_room_for_every_turn():
    sizes = bench_grouped.QUICK | {"repeats": 12}
    calls = bench_grouped.decoding_calls(sizes)
    with torch.no_grad():
        seconds = timing.turns(calls, sizes["repeats"], pause=0.01)  # each runs twice in a turn
        for name, call in calls.items():
            assert len(seconds[name]) == 12
            call()  # for its memory


def test_a_prompt_is_causal_and_a_window_ends():
    sizes = bench_grouped.QUICK
    for what, latest in (("prompt of 16", 16), ("prompt of 16, window of 4", 4)):
        out = bench_grouped.cases(sizes)[what]()["full heads, SDPA"]()
        torch.manual_seed(0)
        q, (k, v) = torch.randn(1, 4, 16, 4), torch.randn(2, 1, 2, 16, 4)
        del out
        torch.manual_seed(0)
        out = bench_grouped.cases(sizes)[what]()["ours"]()
        keep = np.tril(np.ones((16, 16), bool)) & ~np.tril(np.ones((16, 16), bool), -latest)
        want, _ = reference.attention(q.numpy(), k.numpy(), v.numpy(), keep)
        assert checks.difference(out, want) < 1e-5


def test_ours_copies_neither_keys_nor_values():
    sizes = bench_grouped.QUICK | {"heads": 8, "cached": 4096}
    new = {}
    for name, call in bench_grouped.attention_calls(sizes, 1, 4096).items():
        with Allocations() as new[name]:
            call()
    keys_and_values = 2 * 2 * 4096 * 4 * 4
    assert new["ours"].bytes < keys_and_values / 100
    assert new["repeat_interleave, SDPA"].bytes >= 4 * keys_and_values


def test_rows_of_shared_heads_count_the_bytes_of_new_tensors(one_second, monkeypatch):
    calls = {"zeros": lambda: torch.zeros(3 << 18), "none": lambda: None}
    monkeypatch.setattr(bench_grouped, "cases", lambda sizes: {"this": lambda: calls})
    rows = bench_grouped.measure(bench_grouped.QUICK)
    assert [(row["what"], row["program"], row["mebibytes"]) for row in rows] == [
        ("this", "zeros", 3.0), ("this", "none", 0.0)]
    assert rows[0]["seconds"]["repeats"] == 2


# --- the command

MACHINE = {"processor": "Z80", "cores": 1, "threads": 1, "gibibytes": 1.0, "gpu": None,
           "device": "cpu", "system": "CP/M", "python": "3.11.7", "torch": "2.13.0",
           "tensorflow": None, "keras": None, "numpy": "2.4.6", "date": "1976-07-01"}
THIRD = bench_rows.spread([1 / 3])


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command with parts that measure nothing."""
    path, ran = tmp_path / "bench.json", []
    machine = dict(MACHINE)
    monkeypatch.setattr(bench_machine, "machine", lambda device: machine | {"device": device})
    monkeypatch.setattr(bench_tables, "text", lambda found, parts: f"tables of {parts}")
    for part, (module, key) in bench.PARTS.items():
        def measure(sizes, device, part=part, key=key):
            ran.append(part)
            rows = [{"program": part, "n": len(ran), "seconds": THIRD, "mebibytes": None}]
            return {"roofs": {"flops": 1 / 3}, "sweep": (rows, [{"why": "too long"}])}.get(
                key, rows)
        monkeypatch.setattr(module, "measure", measure)

    def run(*arguments, **changes):
        machine.update(changes)
        ran.clear()
        try:
            bench.main([*arguments, "--output", str(path)])
        except SystemExit as left:
            return left.code, capsys.readouterr().err, list(ran)
        return results.load(path, quick=True), capsys.readouterr().out, list(ran)
    return run


def test_all_parts_are_measured_and_written(command):
    found, out, ran = command()
    assert ran == ["machine", "sweep", "fast", "grouped"]
    assert found["sweep"] == [{"program": "sweep", "n": 2, "seconds": bench_rows.rounded(THIRD),
                               "mebibytes": None}]
    assert found["left_out"] == [{"why": "too long"}]
    assert found["roofs"] == {"flops": 0.3333}
    assert found["grouped"][0]["n"] == 4
    assert found["machine"] == MACHINE
    assert found["quick"] is False
    assert set(found["sizes"]) == {"machine", "sweep", "fast", "grouped"}
    assert found["sizes"]["grouped"] == bench_grouped.SIZES
    assert "tables of ['roofs', 'sweep', 'fast', 'grouped']" in out
    assert out.rstrip().endswith("bench.json.")


def test_a_part_alone_goes_into_the_file_that_is_there(command):
    before, _, _ = command()
    after, out, ran = command("--only", "fast", "--only", "machine", date="1976-07-02")
    assert ran == ["machine", "fast"]
    assert "tables of ['roofs', 'fast']" in out
    assert [row["n"] for row in after["fast"]] == [2] != [row["n"] for row in before["fast"]]
    assert after["machine"]["date"] == "1976-07-02"
    for key in ("sweep", "left_out", "grouped", "sizes"):
        assert after[key] == before[key]


@pytest.mark.parametrize("changes", [{"torch": "2.14.0"}, {"cores": 64}, {"threads": 2},
                                     {"processor": "8080"}])
def test_parts_of_different_machines_are_not_mixed(command, changes):
    before, _, _ = command()
    (key, value), = changes.items()
    status, error, ran = command("--only", "fast", **changes)
    assert (status, ran) == (2, [])
    assert f"was measured on another machine ({key}: {MACHINE[key]}, here {value})" in error
    assert error.endswith(": name another --output, or leave out --only\n")
    found, _, _ = command()
    assert found["machine"] == before["machine"] | changes


def test_quick_figures_and_others_are_not_mixed(command):
    command("--quick")
    status, error, ran = command("--only", "fast")
    assert (status, ran) == (2, [])
    assert "was measured with --quick, and this is the other" in error
    command()
    assert "was measured without --quick" in command("--quick", "--only", "fast")[1]


def test_what_is_no_file_of_the_bench_is_not_written_over_by_a_part(command, tmp_path):
    (tmp_path / "bench.json").write_text("{}")
    status, error, ran = command("--only", "fast")
    assert (status, ran) == (2, [])
    assert "must have format 1, got None" in error


def test_a_gpu_that_is_not_there_is_not_measured(command):
    assert command("--device", "cuda") == (
        2, "there is no CUDA GPU here: leave out --device\n", [])


def test_results_of_one_device_are_not_written_over_by_another(command, tmp_path):
    before, out, _ = command()
    assert "Left out on CUDA" not in out
    for more in (), ("--only", "fast"), ("--quick",):
        status, error, ran = command("--device", "cuda", *more, gpu="Voodoo2")
        assert (status, ran) == (2, [])
        assert error.endswith("bench.json holds results of the device cpu, and this is cuda: name "
                              "another --output\n")
        assert results.load(tmp_path / "bench.json") == before
    (tmp_path / "bench.json").unlink()
    found, out, ran = command("--device", "cuda")
    assert found["machine"]["device"] == "cuda"
    assert ran == ["machine", "sweep", "fast", "grouped"]
    assert out.startswith("Left out on CUDA, because they do not run in PyTorch: loops, packed, "
                          "folded (TensorFlow), Keras (sweep) and Keras (fast).")
    assert "holds results of the device cuda, and this is cpu" in command()[1]


def test_on_a_gpu_the_fast_path_leaves_out_keras_and_asks_the_allocator(one_second, monkeypatch):
    """The GPU is PyTorch's device `meta` here, which stores nothing."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(1))
    monkeypatch.setattr(bench_rows, "added_on_gpu", lambda call: call() or 7.0)
    waited = []
    rows = bench_fast.measure(bench_fast.QUICK | {"settings": [[2, 16, 32, 3]], "lengths": (48,)},
                              "meta")
    assert [row["program"] for row in rows if row["pass"] == "forward"] == [
        name for name in bench_fast.NAMES if name != "Keras"]
    assert {row["mebibytes"] for row in rows if row["program"] == "ours"} == {7.0}
    assert len(waited) == len(rows) + 2


def test_memory_on_a_gpu_is_the_peak_above_what_lies_there(monkeypatch):
    seen = []
    for name, answer in (("reset_peak_memory_stats", None), ("memory_allocated", 5 << 20),
                         ("max_memory_allocated", 8 << 20)):
        monkeypatch.setattr(torch.cuda, name, lambda name=name, answer=answer: (
            seen.append(name), answer)[1])
    assert bench_rows.added_on_gpu(lambda: seen.append("call")) == 3.0
    assert seen == ["reset_peak_memory_stats", "memory_allocated", "call", "max_memory_allocated"]


def check_rows(rows):
    assert rows
    for row in rows:
        assert row["program"]
        seconds = row["seconds"]
        assert 0 < seconds["least"] <= seconds["low"] <= seconds["median"] <= seconds["high"]
        assert seconds["repeats"] >= 2
        assert row["mebibytes"] is None or row["mebibytes"] >= 0


def ran(path, *arguments):
    """Run the command as a reader does; return its file and what it printed."""
    done = subprocess.run([sys.executable, "scripts/bench.py", "--output", str(path), *arguments],
                          cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(path.read_text(encoding="utf-8")), done.stdout


@pytest.mark.slow
def test_everything_runs_at_tiny_sizes(tmp_path):
    found, printed = ran(tmp_path / "b.json", "--quick")
    for part in ("sweep", "grouped"):
        check_rows(found[part])
    check_rows([row for row in found["fast"] if row["seconds"]])
    left = {row["program"] for row in found["left_out"]}
    assert left <= {bench_sweep.COMPILED}
    assert {row["program"] for row in found["sweep"]} == {*bench_sweep.all_programs()} - left
    assert {row["program"] for row in found["fast"]} == {*bench_fast.NAMES}
    assert [(row["n"], row["pass"]) for row in found["fast"] if row["seconds"] is None] == [
        (n, name) for n in (64, 128) for name in bench_fast.PASSES.values()]
    for title in ("Left out", "Heads that share keys", "The fast path", "| loops "):
        assert title in printed


# --- the tables

def spread(median):
    return {"median": median, "low": median, "high": median, "least": median / 2, "repeats": 3}


FOUND = {
    **bench.blank(MACHINE, False),
    "roofs": {"flops": {"median": 2.5e10, "low": 2e10, "high": 3e10, "what": "products"},
              "bytes": {"median": 1e9, "low": 9e8, "high": 1.1e9, "what": "triads"}},
    "sweep": [{"program": "a", "n": 8, "seconds": spread(0.002), "mebibytes": None},
              {"program": "a", "n": 16, "seconds": spread(0.008), "mebibytes": 3.2},
              {"program": "b", "n": 16, "seconds": spread(0.004), "mebibytes": 1.0}],
    "left_out": [{"program": "b", "n": 32, "why": "too long"}],
    "fast": [{"program": name, "batch": 1, "n": n, "d_model": 256, "pass": "forward",
              "seconds": seconds, "mebibytes": size} for name, n, seconds, size in (
                  ("ours", 9, spread(0.004), 2.0), ("x", 9, spread(0.008), None),
                  ("y", 9, spread(0.005), 7.0), ("ours", 20, None, 4.0))],
    "grouped": [{"what": "w", "program": name, "seconds": spread(s), "mebibytes": 0.25}
                for name, s in (("ours", 0.002), ("other", 0.003))],
}


def test_the_tables_say_what_was_measured():
    text = bench_tables.text(copy.deepcopy(FOUND), ["roofs", "sweep", "fast", "grouped"])
    for line in (
            "- 25.0 GFLOP/s (quartiles 20.0 to 30.0): products",
            "- 1.0 GB/s (quartiles 0.9 to 1.1): triads",
            "| program | 8 | 16 |", "| a | 2.00 | 8.00 |", "| b | | 4.00 |",
            "| a | – | 3 |", "| b | | 1 |", "- b, n = 32: too long",
            "| (1, 9, 256) | forward | 2.00 | 1.00 | 2.00 | 1.25 | 0.80 (y) |",
            "| (1, 9, 256) | forward | 2 | – | 7 |",
            "| 9 | 2 | – |", "| 20 | 4 | – |",
            "| w | ours | 2.00 | 1.00 | 0.2 |", "| w | other | 3.00 | 1.50 | 0.2 |"):
        assert line in re.sub(" +", " ", text).split("\n"), line
    assert text.startswith(results.describe(FOUND))
    assert "GFLOP" not in bench_tables.text(FOUND, ["grouped"])


def test_numbers_of_a_table():
    assert [bench_tables.number(None), bench_tables.number(2.5e-3, 2), bench_tables.number(
        math.pi)] == ["–", "0.00", "3"]
    assert bench_tables.table(["a", "b"], 1, [[1, 2]]) == (
        "| a   |   b |\n|:----|----:|\n| 1   |   2 |")
