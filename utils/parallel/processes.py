"""Run one program in several processes: `launch`. Taught in `many_machines`.

PyTorch's torchrun (`torch.distributed.run`) starts and watches the processes. They find each other
through a file and communicate over the loopback interface, which other computers cannot reach.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from .. import setup
from ..source import writing
from ._rank import LOST, moved, stored

PATIENCE = 120  # seconds within which all processes must have started
LATE = ("torch._dynamo",)  # PyTorch imports it only when needed, in a second per process
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
# torchrun with a fork server that imports the program's modules once; otherwise each of p processes
# would import them. getfqdn is replaced, because it would ask the network for the host name.
START = """
import os, signal, socket, threading, time
from multiprocessing import forkserver
parent = os.getppid()
def watch():  # ends all processes when the notebook is killed
    while os.getppid() == parent:
        time.sleep(0.2)
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
socket.getfqdn = lambda name="": "localhost"
forkserver.set_forkserver_preload(MODULES)
forkserver.ensure_running()
from torch.distributed import run
run.main()
"""
ENDED = re.compile(r"rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+)")


def launch(program, n_processes, *arguments, seconds=120, max_restarts=0):
    """Run ``program(*arguments)`` in ``n_processes`` processes; return the list of their results.

    ``program`` is a function of a file or a notebook; its source is copied. Arguments and results
    are tensors, numbers or str, in tuples, lists or dicts. If a rank fails, all ranks are stopped
    and restarted with the same arguments, up to ``max_restarts`` times;
    ``TORCHELASTIC_RESTART_COUNT`` in ``os.environ`` is the number of restarts. Raises RuntimeError
    with the first rank that failed and the end of its traceback, and TimeoutError after
    ``seconds``, including restarts, with the line that each rank had reached. No process is left
    running.
    """
    for name, number, least in (("n_processes", n_processes, 1), ("max_restarts", max_restarts, 0)):
        if not isinstance(number, int) or number < least:
            raise ValueError(f"{name} must be an integer, at least {least}, got {number!r}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        _write(folder, program, arguments, seconds)
        command = _command(folder, n_processes, max_restarts)
        status = _run(command, folder, n_processes, seconds)
        print((folder / "out").read_text("utf-8", "replace"), end="")  # what the program printed
        files = [folder / f"{rank}.returned" for rank in range(n_processes)]
        if status is None:
            raise TimeoutError(_late(folder, n_processes, seconds))
        if status or not all(file.exists() for file in files):
            raise RuntimeError(_failure(folder, n_processes, max_restarts))
        return [torch.load(file, weights_only=True) for file in files]


def _write(folder, program, arguments, seconds):
    """Write the program and its arguments to the folder for ``utils.parallel._rank``."""
    (folder / "program.py").write_text(writing.written(program), "utf-8")
    dtype = str(torch.get_default_dtype()).removeprefix("torch.")
    stored({"arguments": moved(arguments, "cpu"), "dtype": dtype, "seconds": seconds},
           folder / "arguments")


def _command(folder, n_processes, max_restarts):
    """Return torchrun's command line, for one host, with a rendezvous in a file."""
    rank = Path(__file__).with_name("_rank.py")
    modules = writing.imports((folder / "program.py").read_text("utf-8"))
    start = START.replace("MODULES", repr(["torch.distributed", *modules, *LATE]))
    return [sys.executable, "-P", "-c", start, f"--nproc-per-node={n_processes}",
            f"--max-restarts={max_restarts}", "--rdzv-backend=c10d", "--rdzv-conf=store_type=file",
            f"--rdzv-endpoint={folder / 'torchrun'}", "--local-addr=127.0.0.1",
            f"--log-dir={folder / 'logs'}", "--run-path", "--start-method=forkserver", str(rank),
            str(folder)]


def _environment():
    """Return the environment of the processes: one thread each, the loopback interface only."""
    return os.environ | {
        "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": LOOPBACK,
        "NCCL_SOCKET_IFNAME": LOOPBACK, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "PYTHONPATH": os.pathsep.join([str(setup.COURSE), *filter(None, sys.path)])}


def _run(command, folder, n_processes, seconds):
    """Run a command and its child processes; return its status, or None if it takes too long.

    The ``seconds`` start when the last process has started, which must happen in ``PATIENCE``.
    """
    with open(folder / "out", "wb") as out, open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                   env=_environment(), start_new_session=True)
        until, waiting = time.monotonic() + PATIENCE, True
        try:
            while process.poll() is None and time.monotonic() < until:
                if waiting and len(list(folder.glob("*.stands"))) == n_processes:
                    until, waiting = time.monotonic() + seconds, False
                time.sleep(0.02)
            return process.returncode
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _failure(folder, size, restarts=0):
    """Return a message: the error that came first, and the end of its traceback."""
    plural = "" if restarts == 1 else "s"
    after = f", after {restarts} restart{plural}" if restarts else ""
    errors = []
    for rank in range(size):
        if (folder / f"{rank}.error").exists():
            when, *text = (folder / f"{rank}.error").read_text("utf-8").splitlines()
            errors.append((bool(LOST.search(text[0])), float(when), rank, text))
    log = (folder / "log").read_text("utf-8", "replace")
    ended = [(rank, status) for rank, status in ENDED.findall(log) if status != "-15"
             and not any((folder / f"{rank}.{end}").exists() for end in ("error", "returned"))]
    if ended and all(lost for lost, *_ in errors):
        rank, status = ended[0]
        killed = status.startswith("-")
        how = f"was killed by signal {status[1:]}" if killed else f"exited with status {status}"
        return f"rank {rank} of {size} {how} before it returned a result{after}"
    if not errors:
        return "torchrun failed: " + "\n".join(log.splitlines()[-12:])
    lost, _, rank, (sentence, *tail) = min(errors)
    done = [str(r) for r in range(size) if (folder / f"{r}.returned").exists()]
    gone = ""
    if lost and done:
        gone = (f" (rank {', '.join(done)} had already returned: does every rank call every "
                "collective?)")
    what = "lost its connection to another rank" if lost else f"raised {sentence}"
    return f"rank {rank} of {size} {what}{gone}{after}\n" + "\n".join(tail)


def _late(folder, size, seconds):
    """Return a message: the line that each rank had reached when the time was up."""
    stands = []
    for rank in range(size):
        where = folder / f"{rank}.stands"
        trace = where.read_text("utf-8") if where.exists() else ""
        trace = trace.rpartition("Thread 0x")[2]  # the main thread comes last
        steps = re.findall(r'File "(.*)", line (\d+) in (\S+)', trace)
        own = [step for step in steps if not re.search(
            r"[/\\]_rank\.py|runpy|multiprocessing|[/\\]torch[/\\]", step[0])]
        if (folder / f"{rank}.returned").exists():
            stands.append(f"rank {rank} had returned")
        elif own:
            file, line, function = own[0]
            stands.append(f"rank {rank} was in {function}, line {line} of {Path(file).name}")
        elif where.exists():
            stands.append(f"rank {rank} had just started")
        else:
            stands.append(f"rank {rank} had not started")
    return f"not finished after {seconds:g} seconds: {'; '.join(stands)}"
