"""Measure time and memory of programs, to compare them."""

import os
import random
import subprocess
import sys
import time

from .. import setup

# On Linux, ru_maxrss includes the memory of the parent, which a new process copies before it starts
# a program. So a small process starts the program and measures it.
LAUNCHER = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""


def interleaved(programs, repeats=15, pause=0.0):
    """Return the minimal seconds of each program, {name: float}, for {name: callable}.

    The arguments are those of ``turns``, which runs the programs. The minimum of the repeats is the
    time that other processes disturbed least.
    """
    return {name: min(seconds) for name, seconds in turns(programs, repeats, pause).items()}


def turns(programs, repeats=15, pause=0.0):
    """Return the seconds of each run of each program, {name: list of float}, for {name: callable}.

    The programs take turns, so other load on the computer affects all of them. Their order is drawn
    for each turn, because a program may run faster or slower after a certain other one. The first
    turn is not counted. ``pause`` is the number of seconds before each run, in which idle threads
    of another framework stop spinning. Waking the program's own threads again takes up to 10 ms, so
    a program shorter than the pause runs once more before the run that counts. So each program runs
    up to 2 (repeats + 1) times.
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
    """Return each time as a multiple of that of ``base`` (default: the smallest), {name: float}.

    Ratios differ less between computers than seconds do.
    """
    unit = min(seconds.values()) if base is None else seconds[base]
    return {name: value / unit for name, value in seconds.items()}


def peak_memory(code):
    """Return the peak memory, in MiB, of a new Python process that runs ``code``, source text.

    ``code`` can import ``utils``. The memory includes its imports, so subtract that of the imports
    alone. Not on Windows. Raises RuntimeError with the output of the process when it fails.
    """
    path = os.pathsep.join(filter(None, (str(setup.COURSE), os.environ.get("PYTHONPATH"))))
    done = subprocess.run([sys.executable, "-c", LAUNCHER, code], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": path})
    if done.returncode:
        raise RuntimeError(f"the measured process failed:\n{done.stderr}")
    largest = int(done.stdout.splitlines()[-1])
    return largest / (2**20 if sys.platform == "darwin" else 2**10)  # bytes on macOS, else KiB
