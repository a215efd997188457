"""The process in which a student's probe runs: it holds no program, and no part of this course.

    python -I -B sandbox.py HOW_MANY

It stands in a folder of its own, beside submission.py, and forgets its arguments. It writes the
arguments of a call to the current program, a verdict on it, or why there is no verdict, and reads
what calls return. Such a message is a dict of arrays in the format of NumPy, never a pickle, and is
sent as its length, 8 bytes, and its content.
"""

import importlib.util
import io
import os
import sys
import traceback
import zipfile

import numpy as np

LARGEST = 2**22  # bytes in a message, also when it is unpacked
SUBMISSION = "submission.py"
RAISED = "the program raised an error"  # whatever it was: its text could give the program away


def send(stream, message):
    """Write a message, a dict of arrays, numbers or texts, to a binary stream."""
    packed = io.BytesIO()
    np.savez(packed, **message)
    content = packed.getvalue()
    stream.write(len(content).to_bytes(8, "little") + content)
    stream.flush()


def receive(stream):
    """Return the next message of a binary stream, or None at its end.

    Raises ValueError if it is no message, or larger than LARGEST.
    """
    length = int.from_bytes(stream.read(8), "little")
    if length > LARGEST:
        raise ValueError(f"a message may have at most {LARGEST} bytes, got {length}")
    if not length:
        return None
    content = io.BytesIO(stream.read(length))
    with zipfile.ZipFile(content) as packed:
        unpacked = sum(one.file_size for one in packed.infolist())
    if unpacked > LARGEST:
        raise ValueError(f"a message may have at most {LARGEST} bytes, got {unpacked}")
    with np.load(content, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def pack(args):
    """Return arguments, which are arrays, numbers, dicts of arrays or None, as a message."""
    message = {}
    for n, arg in enumerate(args):
        items = arg.items() if isinstance(arg, dict) else [("", arg)]
        message |= {f"{n}.{name}": np.asarray(item) for name, item in items if item is not None}
    return message | {"count": np.asarray(len(args))}


def unpack(message):
    """Return the arguments that ``pack`` has packed."""
    args = [None] * int(message["count"])
    for name in message.keys() - {"count"}:
        index, _, key = name.partition(".")
        index, item = int(index), message[name]
        if key:
            args[index] = (args[index] or {}) | {key: item}
        else:
            args[index] = item if item.ndim else item.item()
    return args


class ProgramError(RuntimeError):
    """The program that a probe has called raised an error."""


class RemoteProgram:
    """The program that a probe gets: calling it sends the arguments to another process."""

    def __init__(self, calls, results):
        self._calls, self._results = calls, results

    def __call__(self, *args):
        send(self._calls, pack(args))
        result = receive(self._results)
        if "error" in result:
            raise ProgramError(RAISED)
        return result["out"]

    def __repr__(self):
        return "<a program>"


def verdict(probe, program, path):
    """Return as a message the verdict of a probe on a program, or why there is none."""
    try:
        said = probe(program)
        if isinstance(said, (bool, np.bool_)):
            return {"verdict": said}
        kind = "None" if said is None else type(said).__name__
        return {"problem": f"returns {kind}; expected True or False"}
    except BaseException as error:  # a probe may raise anything, even SystemExit
        return {"problem": described(error, path)}


def described(error, path):
    """Return an exception as one line, with the line number of the file that raised it."""
    steps = [step.lineno for step in traceback.extract_tb(error.__traceback__)
             if step.filename == path]
    if isinstance(error, SyntaxError):
        steps = [error.lineno]
    if getattr(error, "name", "") in ("utils", "one_equation"):
        return "imports the course; a probe may import only NumPy, PyTorch and the standard library"
    where = f" in line {steps[-1]}" if steps else ""
    return f"raises {type(error).__name__}{where}: {' '.join(str(error).split())[:150]}"


def main(count):
    """Run the probe beside this file on so many programs, which it reaches through two pipes."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), SUBMISSION)
    calls, results = (os.fdopen(os.dup(n), mode) for n, mode in ((1, "wb"), (0, "rb")))
    with open(os.devnull, "r+b") as nowhere:  # what the probe prints or reads
        for number in (0, 1, 2):
            os.dup2(nowhere.fileno(), number)
    spec = importlib.util.spec_from_file_location("submission", path)
    submission = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(submission)
        probe = submission.probe
    except BaseException as error:
        send(calls, {"broken": described(error, path)})
        return
    for _ in range(count):
        send(calls, verdict(probe, RemoteProgram(calls, results), path))


if __name__ == "__main__":
    how_many, sys.argv[:] = int(sys.argv[1]), [""]
    main(how_many)
