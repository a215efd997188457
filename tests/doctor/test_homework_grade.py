"""Grading: what a probe catches less what it falsely alarms, whatever it is and does."""

import csv
import io
import itertools
import json

import numpy as np
import pytest
import submissions

from utils import reference, sizes
from utils.doctor.homework import (
    _sandbox,
    grade as grading,
    panel,
    programs as homework_programs,
    score as scoring,
)
from utils.doctor.homework.programs import Program

KERNELS, LAYERS = panel.panel("kernel", 7), panel.panel("layer", 7)


@pytest.fixture
def score(tmp_path):
    def of(text, programs=KERNELS, seconds=60.0):
        path = tmp_path / "probe.py"
        path.write_text(text, encoding="utf-8")
        return scoring.score(path, programs, seconds)
    return of


def right(q, k, v, keep=None):
    return reference.attention(q, k, v, keep)[0]


def wrong(q, k, v, keep=None):
    return reference.attention(2 * q, k, v, keep)[0]


def test_a_thorough_probe_gets_all_points_and_its_questions_are_counted(score):
    got = score(submissions.THOROUGH)
    assert got[:5] == (100, 1.0, 0.0, {}, [])
    assert got.remark == ""
    well = sum(not program.fault for program in KERNELS)
    assert 3 * well < got.calls < 3 * len(KERNELS)


def test_a_layer_is_graded_in_the_same_way(score):
    assert score(submissions.LAYER, LAYERS)[:5] == (100, 1.0, 0.0, {}, [])


def test_what_a_probe_cannot_see_it_misses_by_name(score):
    got = score(submissions.UNMASKED)
    masks = {"mask ignored", "mask inverted", "mask after softmax", "mask added as 0/1",
             "mask value too high", "tile for repeat"}
    assert set(got.missed) == masks
    assert got.alarmed == []
    faults = homework_programs.names("kernel")
    assert got.points == round(100 * got.caught) == round(100 - 100 * len(masks) / len(faults))


def test_false_alarms_cost_what_catches_earn(score):
    got = score(submissions.STRICT)
    assert sorted(got.alarmed) == ["PyTorch in float32", "float32"]
    well = sum(not program.fault for program in KERNELS)
    assert got.alarms == pytest.approx(2 / well)
    assert got.points == round(100 * (got.caught - 2 / well))
    assert 60 < got.points < 90


def test_always_sick_never_sick_and_shapes_get_nothing(score):
    assert score(submissions.ALL)[:3] == (0, 1.0, 1.0)
    assert score(submissions.NONE)[:3] == (0, 0.0, 0.0)
    assert score(submissions.SHAPE)[:3] == (0, 0.0, 0.0)
    assert 0 < score(submissions.ROW_SUMS).points < 50


def test_each_fault_counts_the_same_however_many_programs_show_it(score):
    programs = [Program("scaled", f"number {n}", wrong) for n in range(3)] + [
        Program("scaled", "not at all", right), Program("other", "", wrong),
        Program("", "right", right)]
    got = score(submissions.UNMASKED, programs)
    assert got.caught == pytest.approx((3 / 4 + 1) / 2)
    assert got.missed == {"scaled": ["not at all"]}
    assert got.points == 88


@pytest.mark.parametrize(("name", "remark"), [
    ("UNTOUCHED", "raises NotImplementedError in line 12: write me"),
    ("SILENT", "raises ProgramError in line 12: the program raised an error"),
    ("EXITS", "raises SystemExit in line 11: done"),
    ("LEAVES", "ends without a verdict"),
    ("BORROWS", "imports the course; a probe may import only NumPy")])
def test_what_goes_wrong_becomes_a_sentence_and_no_points(score, name, remark):
    got = score(getattr(submissions, name))
    assert got.points == 0
    assert got.remark.startswith(remark)


def test_what_is_neither_true_nor_false_is_no_verdict(score):
    got = score(submissions.HEAD + "def probe(program):\n    return 1\n")
    assert (got.points, got.remark) == (0, "returns int; expected True or False")
    got = score(submissions.HEAD + "def probe(program):\n    pass\n")
    assert got[:3] == (0, 0.0, 1.0)  # nobody was caught, nobody was told to be healthy
    assert got.remark == "returns None; expected True or False"


def test_a_probe_that_hangs_is_stopped(score):
    got = score(submissions.HANGS, seconds=1.0)
    assert got[:3] == (0, 0.0, 0.0)
    assert got.remark == f"takes longer than 1 s; stopped at program 1 of {len(KERNELS)}"


def test_a_probe_without_a_verdict_on_the_rest_gets_nothing_for_the_first(score):
    text = submissions.HEAD + '''
import os
asked = []


def probe(program):
    asked.append(program)
    return True if len(asked) < 5 else os._exit(0)
'''
    assert score(text, [Program("other", "", wrong)] * 5 + [Program("", "right", right)])[:3] == (
        0, 0.0, 0.0)


def test_a_probe_finds_no_program_in_its_process(score):
    got = score(submissions.LOOKS)
    assert (got.caught, got.alarms, got.remark) == (0.0, 0.0, "")


def test_counting_programs_earns_nothing(score):
    points = [score(submissions.COUNTS, panel.panel("kernel", seed)).points for seed in range(4)]
    assert max(points) < 35


def test_a_probe_that_speaks_out_of_turn_is_told_so(score):
    text = submissions.HEAD + '''
import gc, io


def probe(program):
    program._calls.write((5).to_bytes(8, "little") + b"hello")
    program._calls.flush()
    return True
'''
    got = score(text)
    assert got.points == 0
    assert got.remark.startswith("sends an invalid message")


def test_messages_return_what_was_sent_and_never_pickles():
    stream = io.BytesIO()
    q, weights = sizes.qkv()[0].astype(np.float32), sizes.weights()
    args = [q, None, weights, 3, np.array([True, False]), "text"]
    _sandbox.send(stream, _sandbox.pack(args))
    _sandbox.send(stream, {"verdict": np.asarray(True)})
    stream.seek(0)
    got = _sandbox.unpack(_sandbox.receive(stream))
    np.testing.assert_array_equal(got[0], q)
    assert got[0].dtype == np.float32
    assert got[1] is None
    assert set(got[2]) == set(weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(got[2][name], array)
    assert got[3] == 3
    assert isinstance(got[3], int)
    assert got[4].tolist() == [True, False]
    assert _sandbox.receive(stream).keys() == {"verdict"}
    assert _sandbox.receive(stream) is None
    stream = io.BytesIO()
    _sandbox.send(stream, {"out": np.array([{"a": 1}], dtype=object)})
    stream.seek(0)
    with pytest.raises(ValueError, match="allow_pickle"):
        _sandbox.receive(stream)


def test_messages_have_a_largest_size():
    stream = io.BytesIO((2**22 + 1).to_bytes(8, "little"))
    with pytest.raises(ValueError, match="at most 4194304 bytes, got 4194305"):
        _sandbox.receive(stream)
    packed = io.BytesIO()
    np.savez_compressed(packed, zeros=np.zeros(2**20))  # small, and large when it is unpacked
    stream = io.BytesIO(len(packed.getvalue()).to_bytes(8, "little") + packed.getvalue())
    with pytest.raises(ValueError, match="at most 4194304 bytes, got 83"):
        _sandbox.receive(stream)


def test_a_program_that_raises_says_so_to_the_probe():
    def raises(q):
        raise KeyError("keep")
    assert str(scoring.answered(raises, _sandbox.pack([1]))["error"]) == _sandbox.RAISED
    got = scoring.answered(lambda n: n / 0.0, _sandbox.pack([np.ones(2)]))
    assert np.isinf(got["out"]).all()  # and without a warning


# --- the file that comes back

def test_fields_are_read_without_running_the_file(tmp_path):
    path = tmp_path / "ada.py"
    path.write_text(submissions.EXITS, encoding="utf-8")
    assert grading.fields(path) == {"STUDENT": "Ada Lovelace", "PROGRAM": 12345678,
                                    "LEVEL": "kernel", "DIAGNOSIS": ""}


@pytest.mark.parametrize(("old", "new", "message"), [
    ("PROGRAM = 12345678\n", "", "lacks the line PROGRAM = …"),
    ("12345678", "'12345678'", "lacks the line PROGRAM = …"),
    ('STUDENT = "Ada Lovelace"', "STUDENT = input()", "lacks the line STUDENT = …"),
    ('"kernel"', '"decoding"', "LEVEL and PROGRAM differ from what was handed out"),
    ("12345678", "-1", "LEVEL and PROGRAM differ from what was handed out"),
    ("import numpy", "import numpy as", "is not Python")])
def test_a_file_that_is_not_what_was_handed_out_is_refused(tmp_path, old, new, message):
    path = tmp_path / "ada.py"
    path.write_text(submissions.ALL.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        grading.fields(path)
    found, = grading.grades([path], signed=lambda *_: True)
    assert (found.score.points, found.diagnosis, found.student) == (0, "", "")
    assert message in found.remark


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """Grade a submission with a program and a diagnosis; the probe's score is made up."""
    made_up = scoring.Score(50, 0.6, 0.1, {"no scale": [""]}, ["float32"], 9)
    monkeypatch.setattr(scoring, "score", lambda path, programs, seconds: made_up)

    def of(number=1, diagnosis="", level="kernel", signed=lambda *_: True):
        path = tmp_path / "ada.py"
        path.write_text(submissions.ALL.replace("12345678", str(number)).replace(
            'DIAGNOSIS = ""', f"DIAGNOSIS = {diagnosis!r}").replace("kernel", level), "utf-8")
        return grading.grades([path], signed=signed)[0]
    return of


def number_of(fault):
    """Return the first number of a program with this fault; it depends on all faults."""
    return next(n for n in range(999) if homework_programs.chosen(n).fault == fault)


def test_a_diagnosis_is_compared_with_the_fault(graded):
    number = number_of("scale by sqrt(d_model)")
    assert graded(number, " Scale by sqrt(d_model)").diagnosis == "right"
    assert graded(number, "no scale").diagnosis == "wrong"
    assert graded(1).diagnosis == "none"
    assert graded(1, "no scale", signed=None).diagnosis == ""


def test_a_diagnosis_may_name_what_cannot_be_told_from_the_fault(graded):
    number = next(n for n in range(999) if homework_programs.chosen(n, "layer")[:2] == (
        "packed order", "read as [q | v | k]"))
    assert grading.accepted(number, "layer") == {"packed order", "k and v swapped"}
    for name in ("packed order", "k and v swapped"):
        assert graded(number, name, "layer").diagnosis == "right"
    assert graded(number, "q and k swapped", "layer").diagnosis == "wrong"


def test_the_fault_of_a_program_is_an_accepted_name():
    for level, number in itertools.product(homework_programs.LEVELS, range(6)):
        assert homework_programs.chosen(number, level).fault in grading.accepted(number, level)


def test_a_number_of_somebody_else_is_told_and_its_diagnosis_not_looked_at(graded):
    asked = []
    found = graded(1, "scale by sqrt(d_model)", signed=lambda *of: asked.append(of))
    assert asked == [("Ada Lovelace", 1, "kernel")]
    assert found.diagnosis == ""
    assert found.remark == "program 1 was not given to 'Ada Lovelace' under this phrase"


def test_a_remark_says_what_to_learn(graded):
    assert graded().remark == "misses no scale; calls healthy programs sick: float32"


def grade(student, points, missed=(), alarmed=()):
    score = scoring.Score(points, 0.5, 0.25, {name: [""] for name in missed}, list(alarmed), 3)
    return grading.Grade(f"{student[:3]}.py", student, 7, score, "right", "a, b")


def test_the_table_has_the_best_first_and_columns_that_stand_under_each_other():
    text = grading.table([grade("Ada Lovelace", 7), grade("Ben", 100), grade("Cyd", 7)])
    assert text.splitlines() == [
        "student         program    points    caught    alarms  diagnosis    remark",
        "Ben                   7       100       50%       25%  right        a, b",
        "Ada Lovelace          7         7       50%       25%  right        a, b",
        "Cyd                   7         7       50%       25%  right        a, b"]


def test_csv_and_json_hold_the_same_grades():
    found = [grade("Ada, Countess of Lovelace", 7, ["no scale"]), grade("Émile", 100)]
    rows = list(csv.DictReader(io.StringIO(grading.as_csv(found))))
    assert [(row["file"], row["student"], row["points"], row["remark"]) for row in rows] == [
        ("Ada.py", "Ada, Countess of Lovelace", "7", "a, b"), ("Émi.py", "Émile", "100", "a, b")]
    told = json.loads(grading.as_json(found))
    assert [one["student"] for one in told] == [row["student"] for row in rows]
    assert told[0]["score"]["missed"] == {"no scale": [""]}
    assert "Émile" in grading.as_json(found)
