"""What is measured, and how often; never how fast, which depends on the machine."""

import sys
from functools import partial

import pytest

from utils.measure import timing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read from Unix")


@pytest.fixture
def clock(monkeypatch):
    """Let time stand still, except when a program says how long it takes; return that function."""
    now = [100.0]

    def take(seconds):
        now[0] += seconds

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return take


def test_interleaved_returns_the_least_of_the_counted_turns(clock):
    first, second = iter([0.1, 3.0, 2.0, 4.0]), iter([0.1, 5.0, 7.0, 6.0])
    least = timing.interleaved({"a": lambda: clock(next(first)), "b": lambda: clock(next(second))},
                               repeats=3)
    assert list(least) == ["a", "b"]
    assert least == pytest.approx({"a": 2.0, "b": 5.0})


def test_turns_returns_what_every_counted_run_took(clock):
    first, second = iter([0.1, 3.0, 2.0, 4.0]), iter([0.1, 5.0, 7.0, 6.0])
    taken = timing.turns({"a": lambda: clock(next(first)), "b": lambda: clock(next(second))}, 3)
    assert list(taken) == ["a", "b"]
    assert taken["a"] == pytest.approx([3.0, 2.0, 4.0])
    assert taken["b"] == pytest.approx([5.0, 7.0, 6.0])


def test_a_pause_is_kept_before_each_run_and_not_counted(clock, monkeypatch):
    monkeypatch.setattr(timing.time, "sleep", clock)
    pauses = timing.interleaved({"a": lambda: clock(2.0)}, repeats=3, pause=0.5)
    assert pauses == pytest.approx({"a": 2.0})
    assert timing.time.perf_counter() == pytest.approx(100 + 4 * 2.5)


def test_a_short_program_is_woken_up_after_a_pause_by_a_run_that_does_not_count(clock, monkeypatch):
    monkeypatch.setattr(timing.time, "sleep", clock)
    short, long = iter([0.4, 9.0, 0.3, 9.0, 0.2]), iter([0.5, 0.6])
    taken = timing.turns({"short": lambda: clock(next(short))}, repeats=2, pause=0.5)
    assert taken["short"] == pytest.approx([0.3, 0.2])
    taken = timing.turns({"long": lambda: clock(next(long))}, repeats=1, pause=0.5)
    assert taken["long"] == pytest.approx([0.6])


def test_programs_take_turns():
    calls = []
    programs = {name: partial(calls.append, name) for name in "abc"}
    timing.interleaved(programs, repeats=199)
    turns = ["".join(calls[start:start + 3]) for start in range(0, 600, 3)]
    orders = {turn: turns.count(turn) for turn in turns}
    assert set(orders) == {"abc", "acb", "bac", "bca", "cab", "cba"}
    assert min(orders.values()) > 15
    first, calls[:] = list(calls), []
    timing.interleaved(programs, repeats=199)
    assert calls == first


def test_fifteen_turns_are_counted_unless_told():
    calls = []
    timing.interleaved({"c": lambda: calls.append("c")})
    assert len(calls) == 16


def test_ratios_are_multiples_of_the_least_or_of_the_one_named():
    seconds = {"a": 2.0, "b": 1.0, "c": 5.0}
    assert timing.ratios(seconds) == {"a": 2.0, "b": 1.0, "c": 5.0}
    assert timing.ratios(seconds, "a") == {"a": 1.0, "b": 0.5, "c": 2.5}


def test_peak_memory_sees_what_was_freed_again_and_not_what_the_parent_holds():
    held = bytearray(b"x") * (300 << 20)
    idle = timing.peak_memory("print('no number')")
    used = timing.peak_memory("x = bytearray(b'x') * (200 << 20); del x")
    assert 1 < idle < 100
    assert abs(timing.peak_memory("print(9, end='')") - idle) < 10
    assert 190 < used - idle < 220
    assert len(held) == 300 << 20


def test_measured_code_finds_utils_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert timing.peak_memory("from utils import sizes; assert sizes.HEADS == 3") > 1


def test_a_measured_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match=r"(?s)^the measured process failed:\n.*ZeroDivision"):
        timing.peak_memory("1 / 0")
