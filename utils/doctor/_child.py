"""The process in which ``utils.doctor.command`` runs the reader's file."""

import contextlib
import importlib
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
    """Examine the program {"file", "name", "options"} of the arguments, write the Report and end.

    The process ends at once, as Python would wait for a thread of the reader that never ends.
    """
    _, request, out = sys.argv[1:]
    request = json.loads(request)
    report = examined(Path(request["file"]), request["name"], request["options"])
    Path(out).write_text(json.dumps(report.to_dict()), "utf-8")
    os._exit(0)


def examined(file, name, options):
    """Return the Report on a program of a file; any error becomes a sentence of the Report."""
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
    except (TypeError, ValueError) as error:  # an option that does not fit, in a sentence
        return Report(name, level, "could not examine", f"{error}.")
    except BaseException as error:  # a program should not raise KeyboardInterrupt, but may
        return Report(name, level, "could not examine", f"it raises {type(error).__name__}.")
    return replace(report, program=name)


def imported(file):
    """Return the module of a file, which is run now. Raises RefusalError for any error.

    A file in a package is imported under its dotted name, with the folder above the package first
    on ``sys.path``, and any other file under its stem, with its own folder first. A file with the
    name of an installed module, such as torch.py, does not hide that module.
    """
    root, name = _root_and_name(file)
    utils.__path__.append(str(root / "utils"))  # a package utils of the reader comes second
    try:
        with _subject.refusing():
            _load_installed(name.partition(".")[0])
            sys.path.insert(0, str(root))
            sys.path.append(str(file.parent))  # a file of a package may import its neighbours, too
            if _finds(name, file):
                return importlib.import_module(name)
            package = f"{name.rpartition('.')[0]}." if root != file.parent else ""
            return _run(file, f"{package}_{file.stem}")
    except _subject.RefusalError as refusal:
        message = f"importing {file.name} {refusal}"
        about_utils = "ImportError" in str(refusal) and "utils" in str(refusal)
        if about_utils and (root / "utils.py").exists():
            message += "; the course's package utils hides utils.py: give that file another name"
        raise _subject.RefusalError(message) from refusal


def _root_and_name(file):
    """Return (folder for sys.path, name): the dotted name of a file in a package, or its stem."""
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").is_file():
        root, parts = root.parent, [root.name, *parts]
    return root, ".".join(parts)


def _load_installed(name):
    """Import the installed module of this name, if there is one, so that no file can hide it."""
    if name not in sys.modules and importlib.util.find_spec(name):
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _finds(name, file):
    """Return whether importing this name would import this file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # the parent is no package, or has no spec
        return False
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).resolve() == file.resolve()


def _run(file, name):
    """Return the module of a file, imported under this name."""
    spec = importlib.util.spec_from_file_location(name, file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(module, name):
    """Return the program of this name, which may have dots. Raises RefusalError if there is none.

    A program must be callable.
    """
    try:
        program = operator.attrgetter(name)(module)
    except AttributeError:
        own = [key for key, value in vars(module).items()
               if callable(value) and getattr(value, "__module__", "") == module.__name__]
        names = ", ".join(own) or "no function"
        raise _subject.RefusalError(f"{Path(module.__file__).name} does not define {name}; it "
                                    f"defines {names}") from None
    if not callable(program):
        raise _subject.RefusalError(f"{name} cannot be called: its type is "
                                    f"{type(program).__name__}")
    return program
