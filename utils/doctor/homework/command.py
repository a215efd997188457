"""Find the bug, as homework: a sick program for each student, and a command that grades.

    python -m utils.doctor.homework hand-out --students LIST.txt --to FOLDER
        [--phrase-file FILE] [--level layer]
    python -m utils.doctor.homework grade [--phrase-file FILE] FOLDER_OR_FILE [--csv | --json]
        [--seconds N]
    python -m utils.doctor.homework reveal NUMBER [--level layer]

The teacher's phrase is asked for, or read from a file: other users see the words of a command.
The number of a program is computed from the teacher's phrase and the student's name. Without the
phrase, nobody can make numbers or know the panel. But whoever has a number can find out the fault,
as the programs are public and the doctor names it. So only the probe earns points.
"""

import argparse
import getpass
import hashlib
import hmac
import re
import string
import textwrap
from functools import lru_cache, partial
from pathlib import Path

from . import grade, programs, score

TEMPLATE = Path(__file__).with_name("assignment.txt")
SALT = b"One Equation, Many Programs: homework"
TRIES = 300  # how many numbers to try for a fault that no student has yet
CALLS = {"kernel": "program(q, k, v, keep) -> context",
         "layer": "program(x, memory, weights, n_heads, keep) -> out"}


@lru_cache(maxsize=8)
def key(phrase):
    """Return the key of a phrase, bytes; scrypt makes guessing a phrase slow.

    Raises ValueError for an empty phrase.
    """
    if not phrase.strip():
        raise ValueError("the phrase is empty; choose one that the class cannot guess")
    return hashlib.scrypt(phrase.encode(), salt=SALT, n=2**15, r=8, p=1, maxmem=2**26)


def number(phrase, student, level="kernel", attempt=0):
    """Return a number with eight digits that belongs to a student under the teacher's phrase."""
    text = f"{student.strip()}\n{level}\n{attempt}"
    digest = hmac.new(key(phrase), text.encode(), hashlib.sha256).digest()
    return 10**7 + int.from_bytes(digest[:8], "big") % (9 * 10**7)


def numbers(phrase, students, level="kernel"):
    """Return {student: number}; every fault is given once before any is given twice.

    The number of a student depends only on the students before in the list.
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


def signed(phrase, student, its_number, level="kernel"):
    """Return whether a number belongs to a student under the teacher's phrase."""
    return its_number in {number(phrase, student, level, attempt) for attempt in range(TRIES)}


def seed(phrase):
    """Return the seed of the panel for the teacher's phrase."""
    return int.from_bytes(hmac.new(key(phrase), b"panel", hashlib.sha256).digest()[:6], "big")


def handout(student, its_number, level="kernel"):
    """Return the text of the file that a student gets, fills in and sends back."""
    names = ", ".join(name.replace(" ", "\0") for name in programs.names(level)) + "."
    names = textwrap.fill(names, 94, initial_indent="   ", subsequent_indent="   ")
    return string.Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        student=re.sub(r'["\\]', "'", student), student_code=repr(student), number=its_number,
        level=level, call=CALLS[level], contract=programs.CONTRACTS[level],
        names=names.replace("\0", " "))


def hand_out(phrase, students, folder, level="kernel"):
    """Write a file for each student, named after the student, and return the paths.

    Raises FileExistsError if one of the files exists already, and ValueError if two names give the
    same file. Then nothing is written.
    """
    given = numbers(phrase, students, level)
    paths = [Path(folder) / (re.sub(r"\W+", "_", student).strip("_") + ".py") for student in given]
    twice = sorted({path.name for path in paths if paths.count(path) > 1})
    if twice:
        raise ValueError(f"wrote no file, because several students would get {', '.join(twice)}")
    there = [path.name for path in paths if path.exists()]
    if there:
        raise FileExistsError(f"wrote no file, because these exist already: {', '.join(there)}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, (student, its_number) in zip(paths, given.items(), strict=True):
        path.write_text(handout(student, its_number, level), encoding="utf-8")
    return paths


def options(arguments=None):
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m utils.doctor.homework", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("hand-out", help="write a file for each student",
                              allow_abbrev=False).add_argument
    add("--phrase-file", type=Path, default="-", help="a file with a phrase that only the teacher "
        "knows (default: it is asked for)")
    add("--students", required=True, type=Path, help="a file with one name in each line")
    add("--to", required=True, type=Path, help="the folder for the files")
    add("--level", choices=programs.LEVELS, default="kernel")
    grading = commands.add_parser("grade", help="grade the files that come back",
                                  allow_abbrev=False)
    add = grading.add_argument
    add("where", type=Path, help="a file, or a folder with *.py")
    add("--phrase-file", type=Path, help="the file with the phrase, - to be asked for it; without "
        "it, diagnoses are not graded")
    add("--seconds", type=float, default=score.SECONDS, help="the time limit for each file")
    add = grading.add_mutually_exclusive_group().add_argument
    add("--csv", dest="show", action="store_const", const=grade.as_csv, default=grade.table,
        help="print comma-separated values")
    add("--json", dest="show", action="store_const", const=grade.as_json, help="print JSON")
    add = commands.add_parser("reveal", help="print the fault of a program").add_argument
    add("number", type=int, help="the number of a program")
    add("--level", choices=programs.LEVELS, default="kernel")
    return parser.parse_args(arguments)


def phrase_of(file):
    """Return the phrase in a file, or, for "-", what is typed. Raises ValueError if it is empty."""
    asked = str(file) == "-"
    phrase = getpass.getpass("phrase: ") if asked else file.read_text(encoding="utf-8").strip()
    key(phrase)  # raises for an empty one
    return phrase


def main(arguments=None):
    """Run the command line and return the text to print.

    Raises OSError or ValueError, with a sentence, if that fails.
    """
    said = options(arguments)
    if said.command == "reveal":
        shown = programs.assignment(said.number, said.level)
        fault, detail, _ = programs.chosen(said.number, said.level)
        return f"{shown.__name__}: {fault}" + (f" ({detail})" if detail else "")
    if said.command == "hand-out":
        students = said.students.read_text(encoding="utf-8").splitlines()
        paths = hand_out(phrase_of(said.phrase_file), students, said.to, said.level)
        return f"wrote {len(paths)} files to {said.to}"
    if not said.where.exists():
        raise FileNotFoundError(f"there is no file or folder {said.where}")
    paths = sorted(said.where.glob("*.py")) if said.where.is_dir() else [said.where]
    if not paths:
        raise FileNotFoundError(f"there is no *.py in {said.where}")
    drawn, check = 0, None
    if said.phrase_file is not None:
        phrase = phrase_of(said.phrase_file)
        drawn, check = seed(phrase), partial(signed, phrase)
    return said.show(grade.grades(paths, drawn, check, said.seconds))
