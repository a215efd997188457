"""Score a probe: the share of faults that it catches, minus the share of false alarms."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import command
from . import _sandbox

SECONDS = 60.0
ENDING = 5.0           # seconds for a process to end once it is killed
AXIS, ELEMENTS = 256, 2**16  # the largest arrays that a program is called with


class Score(NamedTuple):
    """The points of a probe on a panel; ``caught`` and ``alarms`` are shares.

    ``missed``: {fault: [detail of each sick program that it called healthy]}. ``alarmed``: the
    names of the healthy programs that it called sick. ``calls``: how often it called a program.
    ``remark``: the first thing that went wrong, or "".
    """

    points: int
    caught: float
    alarms: float
    missed: dict
    alarmed: list
    calls: int
    remark: str = ""


def score(path, programs, seconds=SECONDS):
    """Return the Score of the probe in a file on Programs; ``seconds`` is the limit for all."""
    verdicts, calls, remark = verdicts_of(path, [program.run for program in programs], seconds)
    if len(verdicts) < len(programs):
        return Score(0, 0.0, 0.0, {}, [], calls, remark)
    shares, missed = {}, {}
    for program, said in zip(programs, verdicts, strict=True):
        right = said == bool(program.fault)  # None is neither
        shares.setdefault(program.fault, []).append(right)
        if not right:
            missed.setdefault(program.fault, []).append(program.detail)
    alarms = float(np.mean(np.logical_not(shares.pop(""))))
    caught = float(np.mean([np.mean(share) for share in shares.values()]))
    alarmed = missed.pop("", [])
    return Score(round(100 * max(0.0, caught - alarms)), caught, alarms, missed, alarmed, calls,
                 remark)


def verdicts_of(path, programs, seconds=SECONDS):
    """Return (verdicts, calls, remark): what a probe, in its own process, says of each program.

    A verdict is True, False, or None if the probe raised an error or returned anything else. The
    rest is as in ``Score``.
    """
    talk, mark = _Talk(programs), command.new_mark()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sandbox = shutil.copy(_sandbox.__file__, Path(folder, "sandbox.py"))
        shutil.copy(path, Path(folder, _sandbox.SUBMISSION))
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        child = subprocess.Popen([sys.executable, "-I", "-B", sandbox.name, str(len(programs))],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
                                 stderr=subprocess.DEVNULL, env=kept | mark,
                                 start_new_session=True)
        # In a thread: a process that the probe leaves behind can hold the pipes for ever.
        listening = threading.Thread(target=talk.listen, args=(child,), daemon=True)
        listening.start()
        listening.join(seconds)
        verdicts, late = [*talk.verdicts], listening.is_alive()
        command.end(child, mark)
        listening.join(ENDING)
        if not listening.is_alive():
            for pipe in (child.stdin, child.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()
    stopped = (f"takes longer than {seconds:g} s; stopped at program {len(verdicts) + 1} of "
               f"{len(programs)}")
    return verdicts, talk.calls, stopped if late else talk.remark


class _Talk:
    """What a child process says of programs, which are called for it; it grows meanwhile."""

    def __init__(self, programs):
        self.programs, self.verdicts, self.calls, self.remark = programs, [], 0, ""

    def listen(self, child):
        """Call programs until the process has sent a verdict on each of them."""
        try:
            while len(self.verdicts) < len(self.programs):
                message = _sandbox.receive(child.stdout) or {"broken": "ends without a verdict"}
                if "broken" in message:
                    self.remark = str(message["broken"])
                    return
                if "count" in message:
                    self.calls += 1
                    program = self.programs[len(self.verdicts)]
                    _sandbox.send(child.stdin, answered(program, message))
                    continue
                if "problem" in message:
                    self.remark = self.remark or str(message["problem"])
                self.verdicts.append(bool(message["verdict"]) if "verdict" in message else None)
        except Exception as error:  # whatever is in the message, it is not the grader's mistake
            self.remark = f"sends an invalid message: {error}"


def answered(program, message):
    """Return as a message what a program returns for the arguments in a message, float64."""
    try:
        if any(item.size > ELEMENTS or max(item.shape, default=0) > AXIS
               for item in message.values()):
            raise ValueError("an array is too large")
        with np.errstate(all="ignore"):
            return {"out": np.asarray(program(*_sandbox.unpack(message)), dtype=float)}
    except Exception:  # one message for all errors, as their texts differ between programs
        return {"error": np.asarray(_sandbox.RAISED)}
