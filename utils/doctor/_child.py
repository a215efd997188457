"""The process in which ``utils.doctor.command`` runs the reader's file."""

import importlib.util
import json
import operator
import os
import sys
from dataclasses import replace
from pathlib import Path

import utils
from utils.doctor import _examine, _subject
from utils.doctor._report import Report


def main():
    """Examine what the arguments name, {"file", "name", "options"}, write the report and end.

    At once: a thread of the reader's, which Python would wait for, may never end.
    """
    _, told, out = sys.argv[1:]
    told = json.loads(told)
    report = examined(Path(told["file"]), told["name"], told["options"])
    Path(out).write_text(json.dumps(report.to_dict()), "utf-8")
    os._exit(0)


def examined(file, name, options):
    """Return the Report on a program of a file; whatever is wrong is said in it."""
    level = options.get("level", "")
    level = "decoding" if level == "decode" else level
    try:
        module = imported(file)
        program = found(module, name)
        if "call" in options:
            options = options | {"call": found(module, options["call"])}
        level = level or _examine.level_of(program)
        report = _examine.examine(program, **options | {"level": level})
    except _subject.RefusalError as refusal:
        return Report(name, level, "could not examine", f"{refusal}.")
    except (TypeError, ValueError) as error:  # an option that does not fit, with the words for it
        return Report(name, level, "could not examine", f"{error}.")
    except BaseException as error:  # what no program should raise, and few do: KeyboardInterrupt
        return Report(name, level, "could not examine", f"it raises {type(error).__name__}.")
    return replace(report, program=name)


def imported(file):
    """Return the module of a file, run now. Raises RefusalError for whatever it raises."""
    folder = file.parent
    sys.path.insert(0, str(folder))
    utils.__path__.append(str(folder / "utils"))  # the reader's, of the same name, comes second
    name = file.stem if file.stem not in sys.modules else f"_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _subject.refusing():
            spec.loader.exec_module(module)
    except _subject.RefusalError as refusal:
        hidden = "ImportError" in str(refusal) and "utils" in str(refusal) and (
            folder / "utils.py").exists()
        raise _subject.RefusalError(f"importing {file.name} {refusal}" + hidden * (
            "; the course's utils hides utils.py, which needs another name")) from refusal
    return module


def found(module, name):
    """Return what a name, dots allowed, stands for. Raises RefusalError unless it can be called."""
    try:
        program = operator.attrgetter(name)(module)
    except AttributeError:
        own = [key for key, value in vars(module).items()
               if callable(value) and getattr(value, "__module__", "") == module.__name__]
        raise _subject.RefusalError(f"{Path(module.__file__).name} has no {name}; it has "
                                    f"{', '.join(own) or 'no function'}") from None
    if not callable(program):
        raise _subject.RefusalError(f"{name} cannot be called: it is of type "
                                    f"{type(program).__name__}")
    return program
