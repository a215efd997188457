"""Find the bug, as homework: a sick program for each student, and one command that grades.

    python -m utils.doctor.homework hand-out --phrase P --students LIST.txt --to FOLDER
        [--level layer]
    python -m utils.doctor.homework grade [--phrase P] FOLDER_OR_FILE [--csv | --json] [--seconds N]
    python -m utils.doctor.homework reveal NUMBER [--level layer]

A number comes from the teacher's phrase and the student's name. The phrase keeps anybody else from
making numbers and from knowing the panel. It does not keep a fault secret from whoever has the
number: the programs are public, and the doctor would name it. So it is the probe that earns points.
"""

import argparse
import hashlib
import hmac
import re
import string
import textwrap
from functools import partial
from pathlib import Path

from utils.doctor.homework import grade, programs, score

TEMPLATE = Path(__file__).with_name("assignment.txt")
TRIES = 300  # numbers to choose from, for one whose fault nobody has yet
CALLS = {"kernel": "program(q, k, v, keep) -> context",
         "layer": "program(x, memory, weights, n_heads, keep) -> out"}


def number(phrase, student, level="kernel", attempt=0):
    """Return a number, eight digits, that belongs to a student under the teacher's phrase."""
    text = f"{student.strip()}\n{level}\n{attempt}"
    digest = hmac.new(phrase.encode(), text.encode(), hashlib.sha256).digest()
    return 10**7 + int.from_bytes(digest[:8], "big") % (9 * 10**7)


def numbers(phrase, students, level="kernel"):
    """Return {student: number}; every fault is given once before any is given twice.

    The number of a student depends on those before, not on those behind in the list.
    """
    given = dict.fromkeys(programs.names(level), 0)
    found = {}
    for student in dict.fromkeys(name.strip() for name in students if name.strip()):
        fewest = min(given.values())
        for attempt in range(TRIES):
            found[student] = number(phrase, student, level, attempt)
            fault = programs.chosen(found[student], level).fault
            if given[fault] == fewest:
                break
        given[fault] += 1
    return found


def signed(phrase, student, patient, level="kernel"):
    """Return whether a number belongs to a student under the teacher's phrase."""
    return patient in {number(phrase, student, level, attempt) for attempt in range(TRIES)}


def seed(phrase):
    """Return the seed of the panel that the teacher's phrase stands for."""
    return int.from_bytes(hashlib.sha256(phrase.encode()).digest()[:6], "big")


def handout(student, patient, level="kernel"):
    """Return the text of the file that a student gets, fills in and sends back."""
    names = ", ".join(name.replace(" ", "\0") for name in programs.names(level)) + "."
    names = textwrap.fill(names, 94, initial_indent="   ", subsequent_indent="   ")
    return string.Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        student=re.sub(r'["\\]', "'", student), student_code=repr(student), patient=patient,
        level=level, call=CALLS[level], contract=programs.CONTRACTS[level],
        names=names.replace("\0", " "))


def hand_out(phrase, students, folder, level="kernel"):
    """Write a file for each student, named after the student, and return the paths.

    Raises FileExistsError, before anything is written, where a file is there already, and
    ValueError where two names would make one file.
    """
    given = numbers(phrase, students, level)
    paths = [Path(folder) / (re.sub(r"\W+", "_", student).strip("_") + ".py") for student in given]
    twice = sorted({path.name for path in paths if paths.count(path) > 1})
    if twice:
        raise ValueError(f"nothing written, as several students would get {', '.join(twice)}")
    there = [path.name for path in paths if path.exists()]
    if there:
        raise FileExistsError(f"nothing written, as these exist already: {', '.join(there)}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, (student, patient) in zip(paths, given.items(), strict=True):
        path.write_text(handout(student, patient, level), encoding="utf-8")
    return paths


def options(arguments=None):
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m utils.doctor.homework", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    out, back, name = (commands.add_parser(word) for word in ("hand-out", "grade", "reveal"))
    out.add_argument("--phrase", required=True)
    out.add_argument("--students", required=True, type=Path, help="a file, one name a line")
    out.add_argument("--to", required=True, type=Path)
    back.add_argument("where", type=Path, help="a file, or a folder of *.py")
    back.add_argument("--phrase", help="without it: for practice, diagnoses are not looked at")
    back.add_argument("--seconds", type=float, default=score.SECONDS, help="for each file")
    style = back.add_mutually_exclusive_group()
    style.add_argument("--csv", dest="show", action="store_const", const=grade.as_csv)
    style.add_argument("--json", dest="show", action="store_const", const=grade.as_json)
    name.add_argument("number", type=int)
    for command in (out, name):
        command.add_argument("--level", choices=programs.LEVELS, default="kernel")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Do what the command line says; return what there is to print.

    Raises OSError or ValueError, in a sentence, where it cannot be done.
    """
    said = options(arguments)
    if said.command == "reveal":
        program = programs.chosen(programs.Patient(said.number, said.level).number, said.level)
        return f"patient {said.number}: {program.fault}" + f" ({program.detail})" * bool(
            program.detail)
    if said.command == "hand-out":
        students = said.students.read_text(encoding="utf-8").splitlines()
        paths = hand_out(said.phrase, students, said.to, said.level)
        return f"{len(paths)} files in {said.to}"
    paths = sorted(said.where.glob("*.py")) if said.where.is_dir() else [said.where]
    if not paths:
        raise FileNotFoundError(f"no *.py in {said.where}")
    drawn, check = 0, None
    if said.phrase is not None:
        drawn, check = seed(said.phrase), partial(signed, said.phrase)
    return (said.show or grade.table)(grade.grades(paths, drawn, check, said.seconds))
