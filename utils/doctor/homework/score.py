"""Score a probe: the share of faults that it catches, minus the share of false alarms."""

import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from utils.doctor.homework import _sandbox

CHILD = Path(_sandbox.__file__)
SECONDS = 60.0


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
    pairs = list(zip(programs, verdicts, strict=True))
    shares, missed = {}, {}
    for program, said in pairs:
        if program.fault:
            shares.setdefault(program.fault, []).append(said is True)
            if said is not True:
                missed.setdefault(program.fault, []).append(program.detail)
    healthy = [(program.detail, said is not False) for program, said in pairs if not program.fault]
    caught = float(np.mean([np.mean(share) for share in shares.values()]))
    alarms = float(np.mean([alarm for _, alarm in healthy]))
    return Score(round(100 * max(0.0, caught - alarms)), caught, alarms, missed,
                 [name for name, alarm in healthy if alarm], calls, remark)


def verdicts_of(path, programs, seconds=SECONDS):
    """Return (verdicts, calls, remark): what a probe, in its own process, says of each program.

    A verdict is True, False, or None if the probe raised an error or returned anything else.
    ``calls``: how often the programs were called. ``remark``: the first thing that went wrong.
    """
    late = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", str(CHILD), str(Path(path).resolve()), str(len(programs))]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, cwd=folder)
        timer = threading.Timer(seconds, lambda: (late.set(), child.kill()))
        timer.start()
        try:
            verdicts, calls, remark = _exchange(child, programs)
        finally:
            timer.cancel()
            child.kill()
            child.communicate()
    if late.is_set():
        remark = (f"takes longer than {seconds:g} s; stopped at program {len(verdicts) + 1} of "
                  f"{len(programs)}")
    return verdicts, calls, remark


def _exchange(child, programs):
    """Call programs for a child process until it has sent a verdict on each of them."""
    verdicts, calls, remarks = [], 0, []
    try:
        while len(verdicts) < len(programs):
            message = _sandbox.receive(child.stdout) or {"broken": "ends without a verdict"}
            if "broken" in message:
                return verdicts, calls, str(message["broken"])
            if "count" in message:
                calls += 1
                _sandbox.send(child.stdin, answered(programs[len(verdicts)], message))
                continue
            verdicts.append(bool(message["verdict"]) if "verdict" in message else None)
            if "problem" in message:
                remarks.append(str(message["problem"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        return verdicts, calls, f"sends an invalid message: {error}"
    return verdicts, calls, remarks[0] if remarks else ""


def answered(program, message):
    """Return as a message what a program returns for the arguments in a message."""
    try:
        with np.errstate(all="ignore"):
            return {"out": np.asarray(program(*_sandbox.unpack(message)))}
    except Exception as error:  # the arguments may not fit
        return {"error": np.asarray(f"{type(error).__name__}: {error}"[:200])}
