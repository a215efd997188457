"""Time and memory, measured so that programs can be compared with each other."""

import os
import random
import subprocess
import sys
import time

from utils import setup

# Linux counts in ru_maxrss what a process was before it became this program: a copy of its parent.
# So a small process stands in between and measures its child.
LAUNCHER = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""


def interleaved(programs, repeats=15, pause=0.0):
    """Return the least seconds each program took, {name: float}, for {name: callable}.

    They take turns as in ``turns``, whose arguments these are; of the repeats the minimum is the
    one disturbed least.
    """
    return {name: min(seconds) for name, seconds in turns(programs, repeats, pause).items()}


def turns(programs, repeats=15, pause=0.0):
    """Return the seconds of each run of each program, {name: list of float}, for {name: callable}.

    The programs take turns, so what slows the machine down slows them all, in an order drawn anew
    each time, for what ran before leaves its traces in caches and memory. One turn before the
    first is not counted. ``pause``: seconds before each run, for the idle threads of another
    framework to stop spinning. They fall asleep meanwhile, and to wake them up takes up to 10 ms:
    a program shorter than the pause runs once more, before the run that counts. So one that keeps
    a state is run up to 2 (repeats + 1) times.
    """
    order, shuffle = list(programs), random.Random(0).shuffle
    taken, last = {name: [] for name in programs}, {}
    for turn in range(repeats + 1):
        shuffle(order)
        for name in order:
            time.sleep(pause)
            if last.get(name, pause) < pause:
                programs[name]()
            start = time.perf_counter()
            programs[name]()
            last[name] = time.perf_counter() - start
            if turn > 0:
                taken[name].append(last[name])
    return taken


def ratios(seconds, base=None):
    """Return each time as a multiple of the one named ``base`` (default: the least), {name: float}.

    Ratios of minima say more than seconds: they hold on other machines too, nearly.
    """
    unit = min(seconds.values()) if base is None else seconds[base]
    return {name: value / unit for name, value in seconds.items()}


def peak_memory(code):
    """Return the most memory, in MiB, that a fresh Python process held while it ran ``code``.

    ``code`` is source that finds ``utils``; what it imports counts too, so subtract what the
    imports alone take. Not on Windows. Raises RuntimeError, with what the process wrote, when it
    fails.
    """
    path = os.pathsep.join(filter(None, (str(setup.COURSE), os.environ.get("PYTHONPATH"))))
    done = subprocess.run([sys.executable, "-c", LAUNCHER, code], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": path})
    if done.returncode:
        raise RuntimeError(f"the measured process failed:\n{done.stderr}")
    largest = int(done.stdout.splitlines()[-1])
    return largest / (2**20 if sys.platform == "darwin" else 2**10)  # bytes on macOS, else KiB
