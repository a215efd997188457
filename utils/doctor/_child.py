"""The process in which ``command`` runs the reader's file."""

import importlib
import json
import operator
import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path

from ..setup import COURSE, PACKAGE
from ..source import reading
from . import _examine, _search, _subject
from ._report import Report

DOCTOR = COURSE / PACKAGE / "doctor"
SHARE = 30  # a search may be made several times, and is a part of an examination


def main():
    """Examine the program {"file", "name", "options"} of the arguments, write the Report and end.

    A search for faults takes at most a thirtieth of "seconds", but not less than by default. The
    process ends at once, as Python would wait for a thread of the reader that never ends.
    """
    _, request, out = sys.argv[1:]
    request = json.loads(request)
    _search.SECONDS = max(_search.SECONDS, request["seconds"] / SHARE)
    report = examined(Path(request["file"]), request["name"], request["options"])
    Path(out).write_text(json.dumps(report.to_dict()), "utf-8")
    os._exit(0)


def examined(file, name, options):
    """Return the Report on a program of a file; any error becomes a sentence of the Report."""
    level = options.get("level", "")
    level = "decoding" if level == "decode" else level
    reading.USED.clear()
    try:
        module = imported(file)
        program = found(module, name)
        if "call" in options:
            options = options | {"call": found(module, options["call"])}
        options = options | {"level": level or None}
        report = _examine.examine(program, **options)
        if report.verdict == "could not examine" and reading.load(module):
            report = _examine.examine(program, **options)
    except _subject.RefusalError as refusal:
        return Report(name, level, "could not examine", f"{refusal}.")
    except BaseException as error:  # a program should not raise KeyboardInterrupt, but may
        return Report(name, level, "could not examine", said(error))
    absent = reading.missing(module)
    if report.verdict == "could not examine" and absent:
        return Report(name, report.level, report.verdict, absent)
    return replace(report, program=name, notes=[*report.notes, *reading.undecorated(module)])


def said(error):
    """Return a sentence on an error: of an option, of the program, or our own."""
    if isinstance(error, _subject.OptionError):
        return f"{error}."
    kind = type(error).__name__
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = Path(frame.filename)
    if not isinstance(error, Exception) or not file.is_relative_to(DOCTOR):
        return f"it raises {kind}."
    where = f"{file.relative_to(COURSE)}, line {frame.lineno}"
    return (f"this is a mistake of the doctor, and not of the program: {kind}: {error} ({where}). "
            "Please report it, with the program.")


def imported(file):
    """Return the file as a module. Raises RefusalError if it is not Python.

    A file of the course is imported; of any other, only what is asked for is run.
    """
    if COURSE / PACKAGE in file.parents:
        name = ".".join(file.relative_to(COURSE).with_suffix("").parts)
        with _subject.refusing():
            return importlib.import_module(name)
    return reading.read(file)


def found(module, name):
    """Return the program of this name, which may have dots.

    Raises RefusalError if there is none, or if it cannot be called.
    """
    try:
        program = operator.attrgetter(name)(module)
    except AttributeError:
        file = Path(module.__file__)
        names = ", ".join(reading.definitions(file)) or "no function"
        raise _subject.RefusalError(
            f"{file.name} does not define {name}; it defines {names}") from None
    if not callable(program):
        raise _subject.RefusalError(f"{name} cannot be called: its type is "
                                    f"{type(program).__name__}")
    return program
