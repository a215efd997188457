"""Each number is a sick program that does not show its fault, and panels are fair."""

import inspect
import re
from collections import Counter

import numpy as np
import pytest

from utils import masks, reference, sizes
from utils.doctor import faults
from utils.doctor.homework import panel, programs as homework_programs
from utils.doctor.levels.kernel_cases import LARGE

SOME_KEY = np.array([True, True, False, True, True])  # rows that are not fully masked


def kernel_case(seed=0):
    q, k, v = sizes.qkv(seed, heads=6, kv_heads=2)
    return q, k, v, masks.padding([7, 4], 7) & SOME_KEY[:, None]


def layer_case(seed=0):
    x, memory = sizes.sides(seed, d_in=12, batch=3)
    return x, memory, sizes.weights(seed, d_in=12, d_out=12), 3, masks.padding([6, 4, 5], 7)


def kernel_gap(program, case):
    """Return the largest difference from the reference where a query has something to see."""
    expected, _ = reference.attention(*case)
    return np.abs(program(*case) - expected)[:, :, SOME_KEY].max()


def sick_somewhere(program, level, far=1e-4):
    if level == "layer":
        return any(np.abs(program(*layer_case(seed)) - reference.multi_head_attention(
            *layer_case(seed))[0]).max() > far for seed in range(3))
    q, k, v, keep = kernel_case()
    low = -LARGE * abs(q), 9 * abs(k), v, keep
    return max(kernel_gap(program, (q, k, v, keep)), kernel_gap(program, low)) > far


@pytest.mark.parametrize("level", homework_programs.LEVELS)
def test_every_program_of_a_panel_is_sick_or_healthy_as_it_says(level):
    for seed in range(3):
        programs = panel.panel(level, seed)
        for program in programs:
            assert sick_somewhere(program.run, level) == bool(program.fault), program
        assert {p.fault for p in programs} - {""} == set(homework_programs.names(level))
        assert sorted(p.detail for p in programs if not p.fault) == sorted(
            p.detail for p in panel.healthy(level))


def test_healthy_programs_differ_in_fully_masked_rows_and_precision():
    q, k, v, keep = kernel_case()
    found = {p.detail: p.run(q, k, v, keep) for p in panel.healthy("kernel")}
    rows = {name: out[:, :, 2] for name, out in found.items()}
    assert np.isnan(rows["fully masked rows get nan"]).all()
    assert not rows["reference"].any()
    averages = rows["fully masked rows get average"]
    expected = np.broadcast_to(v.mean(axis=2).repeat(3, axis=1), averages.shape)
    np.testing.assert_allclose(averages, expected)
    unmasked = reference.attention(q, k, v)[0][:, :, 2]
    for name in ("fully masked rows get unmasked", "mask of -1e9 is added"):
        np.testing.assert_allclose(rows[name], unmasked, atol=1e-6)
    assert {str(out.dtype) for name, out in found.items() if "float32" in name} == {"float32"}
    layers = {p.detail: p.run(*layer_case()) for p in panel.healthy("layer")}
    assert {out.dtype for out in layers.values()} == {np.dtype("float32"), np.dtype("float64")}


def test_the_two_precisions_really_differ():
    exact, rounded = (p.run(*kernel_case()) for p in panel.healthy("kernel")
                      if p.detail in ("reference", "PyTorch in float32"))
    gap = np.abs(exact - rounded)[:, :, SOME_KEY].max()
    assert 1e-9 < gap < 1e-5


def test_panels_are_drawn_by_their_seed():
    first, again, other = (panel.panel("kernel", seed) for seed in (4, 4, 5))
    assert [p[:2] for p in first] == [p[:2] for p in again]
    assert [p.fault for p in first] != [p.fault for p in other]
    scales = [{p.detail for p in ps if p.fault == "constant scale"} for ps in (first, other)]
    assert len(scales[0] & scales[1]) == 1  # √d is in both, the drawn one is not


def test_the_faults_of_a_level_are_its_own():
    for level in homework_programs.LEVELS:
        assert {faults.FAULTS[name].level for name in homework_programs.names(level)} == {level}
    assert {"tile for repeat", "window", "dropout in eval"} < set(homework_programs.names("kernel"))


def test_faults_are_drawn_alike_and_then_their_programs():
    drawn = [homework_programs.chosen(number, "layer") for number in range(600)]
    counts = Counter(program.fault for program in drawn)
    fair = len(drawn) / len(homework_programs.names("layer"))
    assert fair / 2 < min(counts.values()) < max(counts.values()) < 2 * fair
    assert len({p.detail for p in drawn if p.fault == "transposed weight"}) > homework_programs.MOST


def test_a_fault_has_at_most_so_many_programs():
    for level in homework_programs.LEVELS:
        counts = [len(programs) for programs in homework_programs.sick(
            level, np.random.default_rng(0)).values()]
        assert 1 <= max(counts) <= homework_programs.MOST
        assert len(counts) == len(homework_programs.names(level))
    assert max(counts) == homework_programs.MOST


def test_constants_are_drawn_from_where_they_matter():
    for seed in range(20):
        programs = homework_programs.sick("kernel", np.random.default_rng(seed))
        details = [program.detail for program in programs["mask value too high"]]
        numbers = [float(re.search(r"-?[\d.]+", detail)[0]) for detail in details]
        assert -8 <= numbers[0] <= -1
        assert -200 <= numbers[1] <= -50
        assert -10 <= numbers[2] <= -3


def test_an_assignment_is_sick_and_always_the_same():
    for seed in range(40):
        for level in homework_programs.LEVELS:
            program = homework_programs.assignment(seed, level)
            assert sick_somewhere(program, level), (seed, level)
    q, k, v, keep = kernel_case()
    one, two = (homework_programs.assignment(4)(q, k, v, keep) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    settled = {homework_programs.chosen(seed).fault for seed in range(200)}
    assert settled == set(homework_programs.names("kernel"))


def test_a_program_with_dropout_gives_different_outputs():
    seed = next(n for n in range(99) if homework_programs.chosen(n).fault == "dropout in eval")
    q, k, v, keep = kernel_case()
    program = homework_programs.assignment(seed)
    answers = [program(q, k, v, None) for _ in range(600)]
    assert not np.array_equal(answers[0], answers[1])
    np.testing.assert_allclose(np.mean(answers, axis=0), reference.attention(q, k, v)[0], atol=0.4)


def test_a_program_shows_its_number_and_not_its_fault():
    program = homework_programs.assignment(1)
    shown = f"{program!r} {program} {vars(program)} {inspect.getsource(type(program))}"
    assert repr(program) == "<program 1, a kernel>"
    assert not any(name in shown for name in homework_programs.names("kernel"))


@pytest.mark.parametrize(("number", "level"), [(-1, "kernel"), (3, "decoding")])
def test_other_numbers_and_levels_are_refused(number, level):
    with pytest.raises(ValueError, match=f"kernel, layer, got {number} and '{level}'"):
        homework_programs.assignment(number, level)
