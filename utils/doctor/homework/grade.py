"""Grade what students send back: the probe by its score, the diagnosis by the fault."""

import ast
import contextlib
import csv
import io
import json
from pathlib import Path
from typing import NamedTuple

from ... import doctor
from .._report import printable
from . import panel, programs, score as scoring
from .score import SECONDS, Score

LARGEST = 10**9  # above all numbers that are handed out
FIELDS = {"STUDENT": str, "PROGRAM": int, "LEVEL": str, "DIAGNOSIS": str}
NOTHING = Score(0, 0.0, 0.0, {}, [], 0)
COLUMNS = ("file", "student", "program", "points", "caught", "alarms", "diagnosis", "remark")


class Grade(NamedTuple):
    """The grade of a file: the Score of its probe and a verdict on its diagnosis.

    ``diagnosis``: "right", "wrong", "none", or "" if it was not graded. ``remark``: what is wrong
    with the file or its probe, or "".
    """

    file: str
    student: str
    program: int
    score: Score
    diagnosis: str
    remark: str = ""

    def row(self):
        """Return the text or number of each of COLUMNS."""
        points, caught, alarms, *_ = self.score
        return (self.file, self.student, self.program, points, f"{caught:.0%}", f"{alarms:.0%}",
                self.diagnosis, self.remark)


def grades(paths, seed=0, signed=None, seconds=SECONDS):
    """Return the Grades of files; their probes run on the panel that ``seed`` draws.

    ``signed(student, number, level)`` says whether this number was given to this student. Without
    it, diagnoses are not graded.
    """
    found = []
    for path in map(Path, paths):
        try:
            found.append(_graded(path, seed, signed, seconds))
        except Exception as error:  # whatever is in a file, the others are graded, too
            remark = (str(error) or type(error).__name__)[:200]
            found.append(Grade(path.name, "", 0, NOTHING, "", remark))
    return found


def _graded(path, seed, signed, seconds):
    student, number, level, diagnosis = fields(path).values()
    score = scoring.score(path, panel.panel(level, seed), seconds)
    remark, verdict = score.remark, ""
    if signed and signed(student, number, level):
        verdict = _judged(diagnosis.strip().casefold(), number, level)
    elif signed:
        remark = f"program {number} was not given to {student!r} under this phrase"
    return Grade(path.name, student, number, score, verdict, remark or _missed(score))


def _judged(diagnosis, number, level):
    if not diagnosis:
        return "none"
    right = diagnosis == programs.chosen(number, level).fault.casefold() or (
        diagnosis in map(str.casefold, accepted(number, level)))
    return "right" if right else "wrong"


def fields(path):
    """Return the FIELDS of a file, {"STUDENT": …}, without running it.

    Raises ValueError for a file that is not Python or lacks a field.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"is not Python: {error or type(error).__name__}") from None
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError, TypeError, MemoryError, RecursionError):
                found[node.targets[0].id] = ast.literal_eval(node.value)
    for name, kind in FIELDS.items():
        if not isinstance(found.get(name), kind):
            raise ValueError(f"lacks the line {name} = … that was handed out")
    if found["LEVEL"] not in programs.LEVELS or not 0 <= found["PROGRAM"] < LARGEST:
        raise ValueError("LEVEL and PROGRAM differ from what was handed out")
    return {name: found[name] for name in FIELDS}


def accepted(number, level="kernel"):
    """Return the names that are right for a program: its fault, and faults that look the same."""
    grouped = {"grouped": True} if level == "kernel" else {}
    report = doctor.examine(programs.assignment(number, level), level, framework="numpy", **grouped)
    same = {some[0] for some in report.names if len(some) == 1}
    return same | {programs.chosen(number, level).fault}


def _missed(score):
    """Return in a few words which faults a probe misses, and its false alarms."""
    remarks = []
    for names, few, many in (
            (score.missed, "misses {}", "misses {} faults"),
            (score.alarmed, "calls healthy programs sick: {}", "calls {} healthy programs sick")):
        if names:
            said = many.format(len(names)) if len(names) > 3 else few.format(", ".join(names))
            remarks.append(said)
    return "; ".join(remarks)


def table(found):
    """Return Grades as a table for the terminal, sorted by points and then by name."""
    from tabulate import tabulate  # handing out needs only NumPy
    best_first = sorted(found, key=lambda grade: (-grade.score.points, grade.student))
    cells = [[*map(_plain, grade.row()[1:])] for grade in best_first]
    return tabulate(cells, COLUMNS[1:], tablefmt="plain", disable_numparse=True,
                    colalign=("left", *["right"] * 4, "left", "left"))


def as_csv(found):
    """Return Grades as comma-separated values, in their order."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_cell, grade.row()) for grade in found)
    return text.getvalue().rstrip()


def _plain(value):
    """Return a cell, in which no text that a student wrote can begin a line of its own."""
    return " ".join(printable(str(value)).split())


def _cell(value):
    """Return a cell that no spreadsheet takes for a formula."""
    text = _plain(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def as_json(found):
    """Return Grades as JSON, with all faults that were missed."""
    return json.dumps([grade._asdict() | {"score": grade.score._asdict()} for grade in found],
                      indent=2, ensure_ascii=False)
