"""The process in which a student's probe runs: it holds no program, and no part of this course.

    python -I probe_process.py SUBMISSION.py HOW_MANY

It reads and writes messages, dicts of arrays in NumPy's own format, never pickles. Each is its
length, 8 bytes, and that many bytes. What it writes is a question to the program in turn, a verdict
on it, or why there is none; what it reads are the program's answers.
"""

import importlib.util
import io
import os
import sys
import traceback

import numpy as np

LARGEST = 2**26  # bytes of a message


def send(stream, message):
    """Write a message, a dict of arrays, to a binary stream."""
    content = io.BytesIO()
    np.savez(content, **message)
    stream.write(len(content.getvalue()).to_bytes(8, "little") + content.getvalue())
    stream.flush()


def receive(stream):
    """Return the next message of a binary stream, or None at its end.

    Raises ValueError for what is no message, or is larger than LARGEST.
    """
    length = int.from_bytes(stream.read(8), "little")
    if length > LARGEST:
        raise ValueError(f"a message of {length} bytes, at most {LARGEST}")
    if not length:
        return None
    with np.load(io.BytesIO(stream.read(length)), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def flat(args):
    """Return arguments of a program, arrays, numbers, dicts of arrays or None, as a message."""
    message = {}
    for n, arg in enumerate(args):
        items = arg.items() if isinstance(arg, dict) else [("", arg)]
        message |= {f"{n}.{name}": np.asarray(item) for name, item in items if item is not None}
    return message | {"count": np.asarray(len(args))}


def full(message):
    """Return the arguments that ``flat`` made a message of."""
    args = [None] * int(message["count"])
    for name in message.keys() - {"count"}:
        place, _, key = name.partition(".")
        place, item = int(place), message[name]
        if key:
            args[place] = (args[place] or {}) | {key: item}
        else:
            args[place] = item if item.ndim else item.item()
    return args


class ProgramError(RuntimeError):
    """What the program raised that a probe has asked."""


class Asked:
    """The program that a probe is given: it stands elsewhere, and answers."""

    def __init__(self, questions, answers):
        self._questions, self._answers = questions, answers

    def __call__(self, *args):
        send(self._questions, flat(args))
        answer = receive(self._answers)
        if "error" in answer:
            raise ProgramError(str(answer["error"]))
        return answer["out"]

    def __repr__(self):
        return "<a program>"


def load(path):
    """Return the function ``probe`` of the file."""
    spec = importlib.util.spec_from_file_location("submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.probe


def verdict(probe, program, path):
    """Return a message: the verdict of a probe on a program, or why there is none."""
    try:
        said = probe(program)
        if isinstance(said, (bool, np.bool_)):
            return {"verdict": np.asarray(said)}
        what = "None" if said is None else f"a {type(said).__name__}"
        return {"problem": np.asarray(f"returns {what}, not True or False")}
    except BaseException as error:  # SystemExit, too: whatever a student's probe does
        return {"problem": np.asarray(told(error, path))}


def told(error, path):
    """Return an exception as one line that names the line of the file where it came up."""
    steps = [step.lineno for step in traceback.extract_tb(error.__traceback__)
             if step.filename == str(path)]
    if isinstance(error, SyntaxError):
        steps = [error.lineno]
    if getattr(error, "name", "") == "utils":
        return "imports the course: a probe stands alone"
    where = f" in line {steps[-1]}" if steps else ""
    return f"raises {type(error).__name__}{where}: {' '.join(str(error).split())[:150]}"


def main(path, count):
    """Put the probe of a file to so many programs, each behind the same two pipes."""
    questions, answers = (os.fdopen(os.dup(n), mode) for n, mode in ((1, "wb"), (0, "rb")))
    with open(os.devnull, "r+b") as nowhere:  # what the probe prints or reads is not ours
        for number in (0, 1, 2):
            os.dup2(nowhere.fileno(), number)
    try:
        probe = load(path)
    except BaseException as error:
        send(questions, {"broken": np.asarray(told(error, path))})
        return
    for _ in range(count):
        send(questions, verdict(probe, Asked(questions, answers), path))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
