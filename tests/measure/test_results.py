"""Files of `make bench`: what is read from them, and what is refused."""

import copy
import json

import numpy as np
import pytest
from exact import raises

from utils import setup
from utils.measure import results

MACHINE = {"processor": "Z80", "cores": 2, "threads": 2, "gibibytes": 0.064, "gpu": None,
           "device": "cpu", "system": "CP/M", "python": "3.11.7", "torch": "2.13.0",
           "tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6", "date": "1976-07-01"}


def row(program, n, median, mebibytes):
    return {"program": program, "n": n, "mebibytes": mebibytes, "seconds": {
        "median": median, "low": 0.75 * median, "high": 1.5 * median, "least": 0.5 * median,
        "repeats": 3}}


FILE = {"format": 1, "quick": False, "machine": MACHINE, "sizes": {}, "roofs": {}, "left_out": [],
        "fast": [], "grouped": [],
        "sweep": [row("slow", 256, 8.0, 5.0), row("fast", 128, 0.5, None),
                  row("slow", 128, 2.0, None), row("slow", 512, 32.0, 20.0)]}


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a file, FILE with changes, and returns its path."""
    def write(text=None, **changes):
        path = tmp_path / "bench.json"
        path.write_text(json.dumps(FILE | changes) if text is None else text, encoding="utf-8")
        return path
    return write


# --- reading

def test_a_file_comes_back_as_it_was_written(written):
    assert results.load(written()) == FILE
    assert results.load(str(written())) == FILE


def test_ours_is_committed_and_read_unless_told():
    assert results.OURS.relative_to(setup.COURSE).as_posix() == "data/bench.json"
    ours = results.load()
    assert ours == results.load(results.OURS)
    assert not ours["quick"]
    assert results.READERS == setup.COURSE / "bench.json"


def test_a_file_that_is_not_there_says_who_writes_it(tmp_path):
    path = tmp_path / "bench.json"
    with raises(FileNotFoundError, f"{path} does not exist; `make bench` writes it"):
        results.load(path)


def test_what_is_no_json_is_refused(written):
    path = written(text="{")
    with pytest.raises(ValueError, match=r"bench.json is not JSON \(.*line 1.*\); `make bench`"):
        results.load(path)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_is_refused(written, version):
    path = written(format=version)
    with raises(ValueError, f"{path} must have format 1, got {version}; `make bench` writes a new "
                            "one"):
        results.load(path)


def test_a_list_is_no_file(written):
    path = written(text="[]")
    with raises(ValueError, f"{path} must have format 1, got None; `make bench` writes a new one"):
        results.load(path)


def test_a_part_too_many_or_too_few_is_named(written):
    path = written(text=json.dumps({key: FILE[key] for key in FILE if key != "fast"} | {"x": 1}))
    with raises(ValueError, f"{path} has missing or unknown keys: fast, x; `make bench` writes a "
                            "new one"):
        results.load(path)


def changed(*keys, value):
    """Return FILE with one part of it changed, or without it where ``value`` is None."""
    file = part = copy.deepcopy(FILE)
    for key in keys[:-1]:
        part = part[key]
    if value is None:
        del part[keys[-1]]
    else:
        part[keys[-1]] = value
    return json.dumps(file)


@pytest.mark.parametrize(("text", "why"), [
    (changed("sweep", value=3), "sweep must be a list, got 3"),
    (changed("machine", value=[]), "machine must be a dict, got []"),
    (changed("quick", value="no"), "quick must be a bool, got 'no'"),
    (changed("machine", "device", value=None), "machine has no device"),
    (changed("sweep", 1, value=[1]), "a row of sweep lacks a program or its numbers: [1]"),
    (changed("sweep", 1, value={"program": "x", "n": 2}),
     "a row of sweep lacks a program or its numbers: {'program': 'x', 'n': 2}"),
    (changed("sweep", 0, value=row(3, 1, 1.0, None)),
     f"a row of sweep lacks a program or its numbers: {row(3, 1, 1.0, None)!r:.80}"),
    (changed("sweep", 0, value=row("a", "1", 1.0, None)),
     f"a row of sweep lacks a program or its numbers: {row('a', '1', 1.0, None)!r:.80}"),
    (changed("sweep", 0, value=row("a", 1, 1.0, "2")),
     f"a row of sweep lacks a program or its numbers: {row('a', 1, 1.0, '2')!r:.80}"),
])
def test_a_part_that_could_not_be_read_is_named(written, text, why):
    path = written(text=text)
    with raises(ValueError, f"{path} cannot be read, because {why}; `make bench` writes a new one"):
        results.load(path)


def test_figures_that_mean_nothing_are_refused_unless_asked_for(written):
    path = written(quick=True)
    with raises(ValueError, f"{path} was written by --quick, so its results are not meaningful; "
                "run `make bench`, or pass quick=True"):
        results.load(path)
    assert results.load(path, quick=True)["sweep"] == FILE["sweep"]
    assert results.load(written(), quick=True) == FILE


# --- what is in it

def test_a_series_is_one_program_by_increasing_length():
    slow = results.series(FILE, "slow")
    assert slow.n.tolist() == [128, 256, 512]
    assert slow.median.tolist() == [2, 8, 32]
    assert slow.low.tolist() == [1.5, 6, 24]
    assert slow.high.tolist() == [3, 12, 48]
    assert np.isnan(slow.mebibytes[0])
    assert slow.mebibytes[1:].tolist() == [5, 20]
    assert {side.dtype.name for side in slow} == {"float64"}
    assert results.series(FILE, "fast").median.tolist() == [0.5]


def test_a_program_that_was_not_measured_is_named_beside_those_that_were():
    with raises(ValueError, "'none' was not measured; measured programs: 'slow', 'fast'"):
        results.series(FILE, "none")
    with raises(ValueError, "'slow' was not measured; measured programs: none"):
        results.series(FILE | {"sweep": []}, "slow")


def test_programs_stand_in_the_order_of_the_file():
    assert results.programs(FILE) == ["slow", "fast"]


@pytest.mark.parametrize("power", [-1.0, 0.0, 1.0, 2.0, 2.5])
def test_the_slope_of_a_power_law_is_its_power(power):
    n = np.array([16, 32, 100, 8192])
    assert abs(results.slope(n, 3e-7 * n**power) - power) < 1e-12


def test_the_slope_is_that_of_least_squares():
    n, y = np.array([1, 2, 4, 8]), np.array([1.0, 5.0, 3.0, 70.0])
    assert abs(results.slope(n, y) - np.polyfit(np.log(n), np.log(y), 1)[0]) < 1e-12
    assert abs(results.slope(n, [np.nan, 5.0, np.nan, 20.0]) - 1.0) < 1e-12
    steady = results.slope(*results.series(FILE, "slow")[:2])
    assert abs(steady - 2) < 1e-12


@pytest.mark.parametrize(("n", "y", "message"), [
    ([128], [1.0], "a slope requires at least two different n, got 1"),
    ([128, 256], [1.0, np.nan], "a slope requires at least two different n, got 1"),
    ([128, 128], [1.0, 2.0], "a slope requires at least two different n, got 1"),
    ([128, 256], [1.0, 0.0], "n and y must be positive, as their logarithms are taken, got 0"),
    ([-1, 256], [1.0, 2.0], "n and y must be positive, as their logarithms are taken, got -1"),
])
def test_what_has_no_slope_is_refused(n, y, message):
    with raises(ValueError, message):
        results.slope(n, y)


def test_the_machine_is_described_in_one_sentence():
    assert results.describe(FILE) == (
        "Measured on 1976-07-01 on Z80 (2 cores, 2 used, 0.064 GiB, CP/M) with Python 3.11.7, "
        "PyTorch 2.13.0, NumPy 2.4.6, TensorFlow 2.21.0 and Keras 3.15.1.")
    file = copy.deepcopy(FILE)
    file["machine"] |= {"cores": 1, "gibibytes": 23.5, "tensorflow": None, "keras": None,
                        "device": "cuda", "gpu": "H100"}
    assert results.describe(file) == (
        "Measured on 1976-07-01 on H100 (1 core, 2 used, 23.5 GiB, CP/M) with Python 3.11.7, "
        "PyTorch 2.13.0 and NumPy 2.4.6.")


# --- the committed file

def test_what_the_committed_file_says_can_be_drawn():
    ours = results.load()
    assert len(results.programs(ours)) >= 10
    for name in results.programs(ours):
        found = results.series(ours, name)
        assert (np.diff(found.n) > 0).all(), name
        assert (found.low > 0).all(), name
        assert (found.low <= found.median).all(), name
        assert (found.median <= found.high).all(), name
        assert not (found.mebibytes <= 0).any(), name
    for roof in results.load()["roofs"].values():
        assert 0 < roof["low"] <= roof["median"] <= roof["high"] <= roof["best"]
    assert all(found["why"] for found in ours["left_out"])
