"""Submissions that try to forge a grade, or to stop the grading of a class."""

import contextlib
import csv
import io
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import submissions
from first import first
from notebook_page import ROOT

from utils.doctor import command, faulty
from utils.doctor.homework import _sandbox, grade as grading, panel, score as scoring

KERNELS = panel.panel("kernel", 7)
SOME = [next(p for p in KERNELS if p.fault == "no scale"),
        *[p for p in KERNELS if not p.fault and p.detail in ("reference", "PyTorch", "float32")]]
ASKS = submissions.HEAD + '''
def probe(program):
    q, k, v, _ = (np.ones((2, 6, 5, 4)), np.ones((2, 2, 7, 4)), np.ones((2, 2, 7, 3)), None)
    try:
        out = program({arguments})
    except Exception as error:
        out = f"{{type(error).__name__}} {{error}}"
    raise ValueError({said})
'''
LEAVES_A_CHILD = submissions.HEAD + '''
import os, sys, time

if os.fork() == 0:
    os.setsid()
    time.sleep(600)


def probe(program):
    return True
'''
LEAVES_A_CHILD_AND_WAITS = LEAVES_A_CHILD.replace("return True", "time.sleep(600)")


@pytest.fixture
def remark(tmp_path):
    def of(text, program, seconds=60.0):
        path = tmp_path / "probe.py"
        path.write_text(text, encoding="utf-8")
        return scoring.verdicts_of(path, [program.run], seconds)[2]
    return of


@pytest.mark.parametrize("arguments", first([
    "q, k, v, 3", "", "q, k[:1], v, None", "q, k, v, np.ones((5, 7))",
    "np.ones((1, 1, 300, 4)), k, v, None",
    "q, k, v", "q", "q, k, v, None, None", "q[0], k, v, None",
    "q, k, v[:, :1], None", "q, k, v, np.ones((5, 7), bool)", "q, k, v[:, :, :1], None",
    "1j * q, k, v, None", "q.astype(int), k, v, None", "q[:, :5], k, v, None",
    "'text', k, v, None", "np.ones((2, 6, 5, 1200)), k, v, None"], 5))
def test_what_a_program_says_of_bad_arguments_is_the_same_for_all(remark, arguments):
    """(a) Neither its error nor its signature tells a sick program from a healthy one."""
    said = {remark(ASKS.format(arguments=arguments, said="str(out)[:80] if isinstance(out, str) "
                               "else f'{out.shape} {out.dtype}'"), program) for program in SOME}
    assert len(said) == 1
    answer, = said
    assert "ProgramError the program raised an error" in answer or "(2, 6, 5, 3) float64" in answer


def test_results_have_one_dtype_whatever_the_program_computes_in():
    args = _sandbox.pack([*(np.ones((2, 6, n, 4)) for n in (5, 7, 7)), None])
    assert {scoring.answered(program.run, args)["out"].dtype.name for program in KERNELS} == {
        "float64"}


FINDS = submissions.HEAD + '''
import os, sys

found = [*sys.argv, *sys.path, os.getcwd(), __file__, *os.environ.values(),
         open("/proc/self/cmdline").read() if os.path.exists("/proc/self/cmdline") else ""]
SEES = any({root!r} in place and "site-packages" not in place and ".venv" not in place
           for place in found)


def probe(program):
    try:
        import utils
    except ImportError:
        raise ValueError(f"sees: {{SEES}}, {{sys.argv}}, {{sorted(os.listdir())}}")
    return True
'''


def test_nothing_in_its_process_says_where_the_course_is(remark):
    """(b) It can import neither the course nor the doctor."""
    said = remark(FINDS.format(root=str(ROOT)), SOME[0])
    assert "sees: False, [''], ['sandbox.py', 'submission.py']" in said


@pytest.mark.slow
def test_the_phrase_stands_in_no_command_line(tmp_path):
    """(c) Nor in the environment of a process that the probe can read."""
    looks = submissions.HEAD + '''
import os


def probe(program):
    words = open(f"/proc/{os.getppid()}/cmdline").read()
    raise ValueError("tea" in words)
'''
    if not Path("/proc/self/cmdline").exists():
        looks = looks.replace('open(f"/proc/{os.getppid()}/cmdline").read()', '""')
    (tmp_path / "phrase").write_text("tea at five", encoding="utf-8")
    (tmp_path / "probe.py").write_text(looks, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "utils.doctor.homework", "grade", "--phrase-file",
                           tmp_path / "phrase", tmp_path / "probe.py"], cwd=ROOT, text=True,
                          capture_output=True, check=True)
    assert "program 12345678 was not given to" in done.stdout
    done = subprocess.run([sys.executable, "-m", "utils.doctor.homework", "grade",
                           tmp_path / "probe.py"], cwd=ROOT, text=True, capture_output=True,
                          check=True)
    assert "ValueError in line" in done.stdout
    assert ": False" in done.stdout


HOSTILE = {
    "unhashable.py": 'STUDENT = {[]: 1}\n' + submissions.ALL,
    "deep.py": submissions.ALL + f"\nx = {'-' * 100_000}1\n",
    "nested.py": submissions.ALL + f"\nx = {'(' * 150}1{')' * 150}\ny = {'[' * 5000}\n",
    "zero.py": submissions.ALL + "\n\0",
    "huge.py": submissions.ALL.replace("12345678", "9" * 5000),
    "list.py": submissions.ALL.replace('LEVEL = "kernel"', 'LEVEL = ["kernel"]'),
    "latin.py": submissions.ALL + "\n# é",
    "corrupt.py": submissions.HEAD + '''
def probe(program):
    program._calls.write((4).to_bytes(8, "little") + b"PK\\x03\\x04")
    program._calls.flush()
    return True
''',
    "closes.py": submissions.HEAD + '''
def probe(program):
    program._calls.close()
    program._results.close()
    return True
''',
    "lies.py": submissions.HEAD + '''
import io, numpy


def probe(program):
    message = io.BytesIO()
    numpy.savez(message, count=numpy.ones(5))
    program._calls.write(len(message.getvalue()).to_bytes(8, "little") + message.getvalue())
    program._calls.flush()
    return True
'''}


def test_one_hostile_file_gets_a_remark_and_the_next_one_its_grade(tmp_path):
    """(d) Whatever is in a file, the grading of the class goes on."""
    for name, text in HOSTILE.items():
        (tmp_path / name).write_text(text, "latin-1" if name == "latin.py" else "utf-8")
    (tmp_path / "a_folder.py").mkdir()
    (tmp_path / "zz_good.py").write_text(submissions.THOROUGH, encoding="utf-8")
    found = {grade.file: grade for grade in grading.grades(sorted(tmp_path.glob("*.py")))}
    assert found.keys() == {*HOSTILE, "a_folder.py", "zz_good.py"}
    assert found.pop("zz_good.py").score.points == 100
    for name, grade in found.items():
        assert grade.score.points == 0, name
        assert grade.remark, name
    assert grading.table(found.values())
    assert grading.as_csv(found.values())
    assert grading.as_json(found.values())


def test_a_name_that_the_terminal_lacks_is_printed_all_the_same(tmp_path):
    (tmp_path / "x.py").write_text(submissions.NONE.replace("Ada", "Ἄδα \\ud800"), "utf-8")
    done = subprocess.run([sys.executable, "-m", "utils.doctor.homework", "grade",
                           tmp_path / "x.py"], cwd=ROOT, capture_output=True, check=False,
                          env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Lovelace" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children need fork")
@pytest.mark.parametrize("text", [LEAVES_A_CHILD, LEAVES_A_CHILD_AND_WAITS])
def test_a_child_with_a_session_of_its_own_holds_nobody(remark, text, monkeypatch):
    """(e) It ends with the probe, and the grader does not."""
    mark = command.new_mark()
    monkeypatch.setattr(command, "new_mark", lambda: mark)
    before = time.monotonic()
    remark(text, SOME[0], seconds=3.0)
    assert time.monotonic() - before < 60
    words = "=".join(*mark.items()).encode()
    while any(alive(place, words) for place in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() - before < 60  # a process that is killed takes a moment to end
        time.sleep(0.1)


def alive(process, words):
    """Return whether a process of /proc has these words in its environment."""
    with contextlib.suppress(OSError):
        return words in (process / "environ").read_bytes()
    return False


def test_neither_rows_nor_formulas_can_be_forged():
    """(f) Names are one line in the table, and text in a spreadsheet."""
    names = ["Ada\nBen Okafor   1   100   100%   0%  right", "=HYPERLINK(1)", "+1", "-1", "@x",
             "\t=1", "\r=1", "\x1b[2Jx", "Cyd"]
    found = [grading.Grade("f.py", name, 7, grading.NOTHING, "", name) for name in names]
    lines = grading.table(found).splitlines()
    assert len(lines) == 1 + len(names)
    assert not any("\x1b" in line for line in lines)
    rows = list(csv.DictReader(io.StringIO(grading.as_csv(found))))
    assert len(rows) == len(names)
    for row in rows:
        for column in ("student", "remark"):
            assert row[column][0] not in "=+-@\t\r", row
    assert rows[-1]["student"] == "Cyd"


@pytest.mark.slow
def test_a_class_of_thirty_with_ten_hostile_ones_is_graded_whole(tmp_path):
    good = [submissions.THOROUGH, submissions.ROW_SUMS, submissions.NONE, submissions.UNMASKED]
    for n in range(20):
        (tmp_path / f"good_{n:02}.py").write_text(
            good[n % 4].replace("Ada Lovelace", f"student {n}"), encoding="utf-8")
    hostile = [*[*HOSTILE.values()][:8], LEAVES_A_CHILD_AND_WAITS, submissions.HANGS]
    for n, text in enumerate(hostile):
        (tmp_path / f"bad_{n:02}.py").write_text(text, encoding="utf-8", errors="replace")
    found = grading.grades(sorted(tmp_path.glob("*.py")), seconds=20.0)
    points = {grade.file: grade.score.points for grade in found}
    assert len(points) == 30
    assert [points[f"good_{n:02}.py"] for n in range(0, 20, 4)] == [100] * 5
    assert {points[f"bad_{n:02}.py"] for n in range(10)} == {0}
    assert len(grading.table(found).splitlines()) == 31


def test_a_large_message_is_refused_and_a_large_program_never_runs():
    run = partial(faulty.kernel.attention)
    for shape in ((1, 1, 257, 4), (8, 8, 64, 32)):
        q = np.zeros(shape)
        answer = scoring.answered(run, _sandbox.pack([q, q, q, None]))
        assert answer.keys() == {"error"}
