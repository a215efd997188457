"""Score a probe: sick programs caught, less false alarms, on programs it cannot look into."""

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
    """What a probe is worth on a panel; ``caught`` and ``alarms`` are shares.

    ``missed``: {fault: what was special} of the sick programs that it let pass, ``alarmed``: the
    healthy ones that it did not; ``questions``: how many it put to programs; ``remark``: the first
    thing that went wrong, or nothing.
    """

    points: int
    caught: float
    alarms: float
    missed: dict
    alarmed: list
    questions: int
    remark: str = ""


def score(path, programs, seconds=SECONDS):
    """Return the Score of the probe in a file on Programs, within so many seconds in all."""
    verdicts, questions, remark = asked(path, [program.run for program in programs], seconds)
    if len(verdicts) < len(programs):
        return Score(0, 0.0, 0.0, {}, [], questions, remark)
    pairs = list(zip(programs, verdicts, strict=True))
    shares, missed = {}, {}
    for program, said in pairs:
        if program.fault:
            shares.setdefault(program.fault, []).append(said is True)
            if said is not True:
                missed.setdefault(program.fault, []).append(program.detail)
    well = [(program.detail, said is not False) for program, said in pairs if not program.fault]
    caught = float(np.mean([np.mean(share) for share in shares.values()]))
    alarms = float(np.mean([alarm for _, alarm in well]))
    return Score(round(100 * max(0.0, caught - alarms)), caught, alarms, missed,
                 [name for name, alarm in well if alarm], questions, remark)


def asked(path, programs, seconds=SECONDS):
    """Return (verdicts, questions, remark): what a probe says of each program, in its own process.

    A verdict is True, False, or None where the probe raised or said something else; ``questions``:
    how many were put to the programs; ``remark``: the first thing that went wrong, or nothing.
    """
    late = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", str(CHILD), str(Path(path).resolve()), str(len(programs))]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, cwd=folder)
        timer = threading.Timer(seconds, lambda: (late.set(), child.kill()))
        timer.start()
        try:
            verdicts, questions, remark = _talk(child, programs)
        finally:
            timer.cancel()
            child.kill()
            child.communicate()
    if late.is_set():
        remark = (f"takes longer than {seconds:g} s: stopped at program {len(verdicts) + 1} of "
                  f"{len(programs)}")
    return verdicts, questions, remark


def _talk(child, programs):
    """Answer the questions of a child process until it has a verdict on each program."""
    verdicts, questions, remarks = [], 0, []
    try:
        while len(verdicts) < len(programs):
            message = _sandbox.receive(child.stdout) or {"broken": "ends without a verdict"}
            if "broken" in message:
                return verdicts, questions, str(message["broken"])
            if "count" in message:
                questions += 1
                _sandbox.send(child.stdin, answered(programs[len(verdicts)], message))
                continue
            verdicts.append(bool(message["verdict"]) if "verdict" in message else None)
            remarks += [str(message["problem"])] if "problem" in message else []
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        return verdicts, questions, f"speaks out of turn: {error}"
    return verdicts, questions, remarks[0] if remarks else ""


def answered(program, message):
    """Return the message with which a program answers a question."""
    try:
        with np.errstate(all="ignore"):
            return {"out": np.asarray(program(*_sandbox.full(message)))}
    except Exception as error:  # the question did not fit
        return {"error": np.asarray(f"{type(error).__name__}: {error}"[:200])}
