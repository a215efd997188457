"""Grade what students send back: their probe by its score, their diagnosis by the fault."""

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

FIELDS = {"STUDENT": str, "PATIENT": int, "LEVEL": str, "DIAGNOSIS": str}
NOTHING = Score(0, 0.0, 0.0, {}, [], 0)
COLUMNS = ("file", "student", "patient", "points", "caught", "alarms", "diagnosis", "remark")


class Grade(NamedTuple):
    """What a file is worth: the Score of its probe, and what its diagnosis is.

    ``diagnosis``: "right", "wrong", "none", or "" where nobody has looked; ``remark``: what is
    wrong with the file or its probe, or nothing.
    """

    file: str
    student: str
    patient: int
    score: Score
    diagnosis: str
    remark: str = ""

    def row(self):
        """Return the grade as text and numbers, by COLUMNS."""
        _, caught, alarms, *_ = self.score
        return dict(zip(COLUMNS, (
            self.file, self.student, self.patient, self.score.points, f"{caught:.0%}",
            f"{alarms:.0%}", self.diagnosis, self.remark), strict=True))


def grades(paths, seed=0, signed=None, seconds=SECONDS):
    """Return the Grades of files, their probes put to the panel that ``seed`` draws.

    ``signed(student, number, level)`` tells whether that number was given to that student; without
    it, nobody looks at diagnoses.
    """
    return [_grade(path, seed, signed, seconds) for path in paths]


def _grade(path, seed, signed, seconds):
    path = Path(path)
    try:
        said = fields(path)
    except ValueError as error:
        return Grade(path.name, "", 0, NOTHING, "", str(error))
    student, patient, level, diagnosis = said.values()
    score = scoring.score(path, panel.panel(level, seed), seconds)
    remark, verdict = score.remark, ""
    if signed and signed(student, patient, level):
        verdict = _judged(diagnosis.strip().casefold(), patient, level)
    elif signed:
        remark = f"patient {patient} was not given to {student!r} under this phrase"
    return Grade(path.name, student, patient, score, verdict, remark or _missed(score))


def _judged(diagnosis, patient, level):
    if not diagnosis or diagnosis == programs.chosen(patient, level).fault.casefold():
        return "right" if diagnosis else "none"
    names = {name.casefold() for name in accepted(patient, level)}
    return "right" if diagnosis in names else "wrong"


def fields(path):
    """Return what a file says of itself, {"STUDENT": …}, without running it.

    Raises ValueError, in a sentence, for a file that is not Python or does not say it.
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
            raise ValueError(f"lacks its line {name} = …, as it was handed out")
    if found["LEVEL"] not in programs.LEVELS or found["PATIENT"] < 0:
        raise ValueError("LEVEL and PATIENT are not as they were handed out")
    return {name: found[name] for name in FIELDS}


def accepted(patient, level="kernel"):
    """Return the names that are right for a patient: its fault, and what equals it everywhere."""
    options = {"grouped": True} if level == "kernel" else {}
    report = doctor.examine(programs.Patient(patient, level), level, framework="numpy", **options)
    same = {some[0] for some in report.names if len(some) == 1}
    return same | {programs.chosen(patient, level).fault}


def _missed(score):
    """Return what a probe has to learn, in a few words."""
    missed = [f"misses {len(score.missed)} faults"] if len(score.missed) > 3 else [
        f"misses {', '.join(score.missed)}"] * bool(score.missed)
    wrong = [f"calls sick: {', '.join(score.alarmed)}"] if 0 < len(score.alarmed) <= 3 else [
        f"calls {len(score.alarmed)} healthy programs sick"] * bool(score.alarmed)
    return "; ".join(missed + wrong)


def table(found):
    """Return Grades as a table for the terminal, the best first, then by name."""
    rows = [grade.row() for grade in sorted(found, key=lambda g: (-g.score.points, g.student))]
    lines = [{name: name for name in COLUMNS[1:]}, *rows]
    width = {name: max(len(str(line[name])) for line in lines) for name in COLUMNS[1:-1]}
    right = ("patient", "points", "caught", "alarms")
    return "\n".join("  ".join([*(
        f"{line[name]:>{wide}}" if name in right else f"{line[name]:{wide}}"
        for name, wide in width.items()), line["remark"]]).rstrip() for line in lines)


def as_csv(found):
    """Return Grades as comma-separated values, in the order in which they came."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(grade.row() for grade in found)
    return text.getvalue().rstrip()


def as_json(found):
    """Return Grades as JSON, with all that was missed."""
    return json.dumps([grade._asdict() | {"score": grade.score._asdict()} for grade in found],
                      indent=2, ensure_ascii=False)
