"""The doctor in a shell: ``python -m utils.doctor FILE.py:NAME``.

The reader's file is run by another process, ``utils.doctor._child``, and only there; what it prints
is not shown. Exit status: 0 healthy, also with a note; 1 sick; 2 could not be examined.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from utils import setup
from utils.doctor._report import Report

STATUS = {"healthy": 0, "note": 0, "sick": 1, "could not examine": 2}
EPILOG = """exit status: 0 healthy, also with a note; 1 sick; 2 could not be examined.

example: python -m utils.doctor attention.py:module --n-heads 8 --causal"""
# The child reads nothing of the reader's before the course's own modules have been imported.
START = ("import sys; sys.path[:0] = [sys.argv[1]]; from utils.doctor import _child; _child.main()")


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one sentence."""

    def error(self, message):
        """Say what is wrong with the arguments and leave, with the status of no examination."""
        self.exit(STATUS["could not examine"], f"{message}; --help lists the options.\n")


def main(arguments=None):
    """Print the report on the program that the arguments name; return the exit status."""
    options = vars(parser().parse_args(arguments))
    as_json, seconds, target = (options.pop(name) for name in ("json", "seconds", "target"))
    report = report_on(target, options, seconds)
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="replace")  # where a terminal has no √
    print(json.dumps(report.to_dict(), ensure_ascii=False, indent=1) if as_json else report)
    return STATUS[report.verdict]


def parser():
    """Return the parser of the command line; options that nobody gives are not in its result."""
    made = Parser(usage="python -m utils.doctor FILE.py:NAME [options]", epilog=EPILOG,
                  description="Say what is wrong with an attention program, by name.",
                  formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
                  argument_default=argparse.SUPPRESS)
    add = made.add_argument
    add("target", metavar="FILE.py:NAME", help="a function, class or module object in a file")
    add("--level", choices=("kernel", "layer", "decode", "decoding"),
        help="default: layer for modules and classes, otherwise kernel")
    add("--causal", nargs="?", const=True, choices=("top_left", "bottom_right"),
        help="it masks what comes later by itself; from which corner if n_q may differ from n_k")
    add("--empty-rows", choices=("zeros", "nan", "average", "unmasked"),
        help="what a query without keys must get")
    add("--masks", choices=("any", "heads alike", "padding", "none"), help="those that it takes",
        type=lambda text: text.replace("-", " "))
    add("--framework", choices=("numpy", "torch", "tensorflow"))
    add("--grouped", action="store_true", help="k and v may have fewer heads")
    _for_layers(add)
    add("--json", action="store_true", default=False, help="print JSON")
    add("--seconds", type=float, default=60.0, help="how long it may take (default 60)")
    return made


def _for_layers(add):
    add("--self-attention", action="store_true", help="a layer whose memory is x")
    add("--sequence-first", dest="batch_first", action="store_false", help="x is (i, b, e)")
    add("--pre-norm", action="store_true", help="a LayerNorm comes first")
    add("--n-heads", type=int, help="of a module that is built")
    add("--call", metavar="NAME", help="call(module, x, memory, keep) -> out, in the same file")
    add("--roles", metavar="q=NAME,…", type=roles, help="the module's parts for q, k, v, o")
    add("--packed", metavar="NAME", help="the module's part that holds [q | k | v]")


def roles(text):
    """Return {"q": name, …} from "q=name,…". Raises ArgumentTypeError for anything else."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if any(letter not in ("q", "k", "v", "o") or not name for letter, _, name in pairs):
        raise argparse.ArgumentTypeError(f"say q=NAME,k=NAME,v=NAME,o=NAME, not {text!r}")
    return {letter: name for letter, _, name in pairs}


def report_on(target, options, seconds):
    """Return the Report on FILE.py:NAME, examined in another process, for at most so long."""
    file, _, name = target.rpartition(":")
    level = options.get("level", "")
    problem = refusal(target, Path(file), name)
    if problem:
        return Report(name or target, level, "could not examine", problem)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.json")
        told = json.dumps({"file": str(Path(file).resolve()), "name": name, "options": options})
        problem = run([sys.executable, "-P", "-c", START, str(setup.COURSE), told,
                       str(out)], seconds)
        if not problem and out.exists():
            return Report(**json.loads(out.read_text("utf-8")))
    return Report(name, level, "could not examine",
                  problem or "its process ended by itself before it was examined.")


def refusal(target, file, name):
    """Return in a sentence why there is nothing to run, or nothing."""
    if "://" in target:
        return "an address is not opened; save the program as a file, read it, then name the file."
    if not file.name or not all(part.isidentifier() for part in name.split(".")):
        return f"say which program of the file is meant, as in {target.partition(':')[0]}:NAME."
    if file.suffix != ".py":
        return f"only the source of a program is run, FILE.py:NAME, not {target!r}."
    return "" if file.is_file() else f"there is no file {file}."


def run(command, seconds):
    """Run a command and all that it starts for at most so many seconds; return what went wrong."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"it gave no answer within {seconds:g} seconds; --seconds allows more."
    except KeyboardInterrupt:
        return "it was interrupted."
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
    return f"its process died of signal {-status}." if status < 0 else ""
