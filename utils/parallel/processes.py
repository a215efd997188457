"""Several processes that run one program, each its own part: `launch`.

PyTorch's torchrun starts and watches them (`torch.distributed.run`). They meet in a file and speak
over the loopback, so no other machine can hear them. Taught in `many_machines`.
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

from utils import setup
from utils.parallel import _source
from utils.parallel._rank import LOST, moved, stored

PATIENCE = 120  # seconds in which all processes must have started
LATE = ("torch._dynamo",)  # what PyTorch imports at need, a second in each that lacks it
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
# torchrun, with a server of new processes that has imported what the program imports: p processes
# would take p times as long, each by itself. (Else it asks the network for this machine's name.)
START = """
import os, signal, socket, threading, time
from multiprocessing import forkserver
parent = os.getppid()
def watch():  # a notebook that is killed takes its processes along
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
    """Run ``program(*arguments)`` in so many processes at once; return what each returned, a list.

    ``program`` is a function; its source is copied, so a notebook's will do. Arguments and results
    are tensors, numbers and texts, in tuples, lists or dicts. If a rank fails, all are ended and
    started anew, with the same arguments, up to ``max_restarts`` times; how often it was tells
    ``TORCHELASTIC_RESTART_COUNT`` in ``os.environ``. Raises RuntimeError with the first rank that
    failed and the end of its traceback, TimeoutError after so many ``seconds``, restarts included,
    with where each rank stood; nothing is left running.
    """
    for name, number, least in (("n_processes", n_processes, 1), ("max_restarts", max_restarts, 0)):
        if not isinstance(number, int) or number < least:
            raise ValueError(f"{name} must be {least} or more, got {number!r}")
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
    """Write the program and its arguments where ``utils.parallel._rank`` looks for them."""
    (folder / "program.py").write_text(_source.written(program), "utf-8")
    dtype = str(torch.get_default_dtype()).removeprefix("torch.")
    stored({"arguments": moved(arguments, "cpu"), "dtype": dtype, "seconds": seconds},
           folder / "arguments")


def _command(folder, n_processes, max_restarts):
    """Return torchrun's command line: one machine, a meeting in a file, no host name looked up."""
    rank = Path(__file__).with_name("_rank.py")
    modules = _source.imports((folder / "program.py").read_text("utf-8"))
    start = START.replace("MODULES", repr(["torch.distributed", *modules, *LATE]))
    return [sys.executable, "-P", "-c", start, f"--nproc-per-node={n_processes}",
            f"--max-restarts={max_restarts}", "--rdzv-backend=c10d", "--rdzv-conf=store_type=file",
            f"--rdzv-endpoint={folder / 'torchrun'}", "--local-addr=127.0.0.1",
            f"--log-dir={folder / 'logs'}", "--run-path", "--start-method=forkserver", str(rank),
            str(folder)]


def _environment():
    """Return the environment of the processes: one thread each, the loopback and nothing else."""
    return os.environ | {
        "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": LOOPBACK,
        "NCCL_SOCKET_IFNAME": LOOPBACK, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "PYTHONPATH": os.pathsep.join([str(setup.COURSE), *filter(None, sys.path)])}


def _run(command, folder, n_processes, seconds):
    """Run a command and all that it starts; return its status, or None if it takes too long.

    The time counts from when the last process has begun, for which there is time of its own.
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
    """Return what went wrong first, in a sentence, and the end of its traceback."""
    after = f", after {restarts} restart{'s' * (restarts > 1)}" if restarts else ""
    errors = []
    for rank in range(size):
        if (folder / f"{rank}.error").exists():
            when, *said = (folder / f"{rank}.error").read_text("utf-8").splitlines()
            errors.append((bool(LOST.search(said[0])), float(when), rank, said))
    log = (folder / "log").read_text("utf-8", "replace")
    ended = [(rank, status) for rank, status in ENDED.findall(log) if status != "-15"
             and not any((folder / f"{rank}.{end}").exists() for end in ("error", "returned"))]
    if ended and all(lost for lost, *_ in errors):
        rank, status = ended[0]
        how = f"was killed by signal {status[1:]}" if status[0] == "-" else f"exited, {status},"
        return f"rank {rank} of {size} {how} before it had returned anything{after}"
    if not errors:
        return "torchrun failed: " + "\n".join(log.splitlines()[-12:])
    lost, _, rank, (sentence, *tail) = min(errors)
    done = [str(r) for r in range(size) if (folder / f"{r}.returned").exists()]
    gone = (f" (rank {', '.join(done)} had returned by then: does every rank take part in every "
            "exchange?)" if lost and done else "")
    what = "lost its connection to another" if lost else f"raised {sentence}"
    return f"rank {rank} of {size} {what}{gone}{after}\n" + "\n".join(tail)


def _late(folder, size, seconds):
    """Return where each rank stood when the time was up."""
    stands = []
    for rank in range(size):
        where = folder / f"{rank}.stands"
        trace = where.read_text("utf-8") if where.exists() else ""
        trace = trace.rpartition("Thread 0x")[2]  # the program's own comes last
        steps = re.findall(r'File "(.*)", line (\d+) in (\S+)', trace)
        own = [step for step in steps if not re.search(
            r"distributed_rank\.py|runpy|multiprocessing|[/\\]torch[/\\]", step[0])]
        if (folder / f"{rank}.returned").exists():
            stands.append(f"rank {rank} had returned")
        else:
            begun = "just" if where.exists() else "not"
            stands.append(f"rank {rank} stood in {own[0][2]}, line {own[0][1]} of "
                          f"{Path(own[0][0]).name}" if own else f"rank {rank} had {begun} begun")
    return f"not done after {seconds:g} seconds: {'; '.join(stands)}"
