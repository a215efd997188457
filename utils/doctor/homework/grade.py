"""Grade what students send back: the probe by its score, the diagnosis by the fault."""

import ast
import contextlib
import csv
import io
import json
from pathlib import Path
from typing import NamedTuple

from utils import doctor
from utils.doctor.homework import panel, programs, score as scoring
from utils.doctor.homework.score import SECONDS, Score

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
        """Return the grade as {column: text or number}, by COLUMNS."""
        _, caught, alarms, *_ = self.score
        return dict(zip(COLUMNS, (
            self.file, self.student, self.program, self.score.points, f"{caught:.0%}",
            f"{alarms:.0%}", self.diagnosis, self.remark), strict=True))


def grades(paths, seed=0, signed=None, seconds=SECONDS):
    """Return the Grades of files; their probes run on the panel that ``seed`` draws.

    ``signed(student, number, level)`` says whether this number was given to this student. Without
    it, diagnoses are not graded.
    """
    return [_grade(path, seed, signed, seconds) for path in paths]


def _grade(path, seed, signed, seconds):
    path = Path(path)
    try:
        said = fields(path)
    except ValueError as error:
        return Grade(path.name, "", 0, NOTHING, "", str(error))
    student, number, level, diagnosis = said.values()
    score = scoring.score(path, panel.panel(level, seed), seconds)
    remark, verdict = score.remark, ""
    if signed and signed(student, number, level):
        verdict = _judged(diagnosis.strip().casefold(), number, level)
    elif signed:
        remark = f"program {number} was not given to {student!r} under this phrase"
    return Grade(path.name, student, number, score, verdict, remark or _missed(score))


def _judged(diagnosis, number, level):
    """Return "right", "wrong" or "none"."""
    if not diagnosis:
        return "none"
    if diagnosis == programs.chosen(number, level).fault.casefold():
        return "right"
    names = {name.casefold() for name in accepted(number, level)}
    return "right" if diagnosis in names else "wrong"


def fields(path):
    """Return the FIELDS of a file, {"STUDENT": …}, without running it.

    Raises ValueError for a file that is not Python or lacks a field.
    """
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"is not Python: {error}") from None
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                found[node.targets[0].id] = ast.literal_eval(node.value)
    for name, kind in FIELDS.items():
        if not isinstance(found.get(name), kind):
            raise ValueError(f"lacks the line {name} = … that was handed out")
    if found["LEVEL"] not in programs.LEVELS or found["PROGRAM"] < 0:
        raise ValueError("LEVEL and PROGRAM differ from what was handed out")
    return {name: found[name] for name in FIELDS}


def accepted(number, level="kernel"):
    """Return the names that are right for a program: its fault, and faults that look the same."""
    program = programs.SickProgram(number, level)
    if level == "kernel":
        report = doctor.examine_kernel(program, grouped=True, framework="numpy")
    else:
        report = doctor.examine_layer(program, framework="numpy")
    same = {some[0] for some in report.names if len(some) == 1}
    return same | {programs.chosen(number, level).fault}


def _missed(score):
    """Return in a few words which faults a probe misses, and its false alarms."""
    remarks = []
    if len(score.missed) > 3:
        remarks.append(f"misses {len(score.missed)} faults")
    elif score.missed:
        remarks.append(f"misses {', '.join(score.missed)}")
    if len(score.alarmed) > 3:
        remarks.append(f"calls {len(score.alarmed)} healthy programs sick")
    elif score.alarmed:
        remarks.append(f"calls healthy programs sick: {', '.join(score.alarmed)}")
    return "; ".join(remarks)


def table(found):
    """Return Grades as a table for the terminal, sorted by points and then by name."""
    from tabulate import tabulate  # handing out needs only NumPy
    rows = [grade.row() for grade in sorted(found, key=lambda g: (-g.score.points, g.student))]
    names = COLUMNS[1:]
    right = ("program", "points", "caught", "alarms")
    return tabulate([[row[name] for name in names] for row in rows], names, tablefmt="plain",
                    colalign=["right" if name in right else "left" for name in names],
                    disable_numparse=True)


def as_csv(found):
    """Return Grades as comma-separated values, in their order."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(grade.row() for grade in found)
    return text.getvalue().rstrip()


def as_json(found):
    """Return Grades as JSON, with all faults that were missed."""
    return json.dumps([grade._asdict() | {"score": grade.score._asdict()} for grade in found],
                      indent=2, ensure_ascii=False)
