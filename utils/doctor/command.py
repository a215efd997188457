"""The doctor in a shell: ``attention-doctor`` where it is installed, or ``python -m utils.doctor``.

Another process, ``_child``, runs the reader's file; what it prints is not shown. The
exit status is 0 for healthy, 1 for sick, 2 for "could not be examined" and 3 for unexplained.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from ..setup import COURSE, PACKAGE
from . import _options
from ._report import Report

COMMAND = "python -m utils.doctor" if PACKAGE == "utils" else "attention-doctor"
STATUS = {"healthy": 0, "sick": 1, "could not examine": 2, "unexplained": 3}
EPILOG = f"""exit status: 0 healthy; 1 sick; 2 could not be examined; 3 unexplained, that is, it
differs from the reference, and no fault with a name explains it.

examples:
  {COMMAND} attention.py:attend           a function of q, k, v and a mask
  {COMMAND} model.py:MultiHeadAttention   a class of torch or Keras
  {COMMAND} gpt.py:CausalSelfAttention    a class that is built with a config object
  {COMMAND} scratch.py:Attention          a class that holds NumPy arrays
  {COMMAND} lesson.ipynb:attend           a program of a notebook

axes: q, k and v are (b, h, i, d), (b, i, d), (i, d) or (b, i, h, d), and x is (b, i, d) or
(i, b, d). A mask is (b, h, i, j), or lacks some of these axes. What it means is tried, and said:
True or 1 = may attend, True or 1 = masked, or 0 and -inf, which are added to the scores. With
options, q is (b, h, i, d), x is (b, i, d), and True = may attend."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # several threads wait for each other at such small arrays
MARK = "EXAMINED_BY_THE_DOCTOR"  # in the environment of all that a program starts
# The child imports the doctor's own modules before it reads any file of the reader.
START = "import sys; sys.path[:0] = [sys.argv[1]]; from {}.{} import _child; _child.main()"


class Parser(argparse.ArgumentParser):
    """A parser whose error messages are one sentence."""

    def error(self, message):
        """Print what is wrong with the arguments and exit with status 2."""
        self.exit(STATUS["could not examine"], f"{message}; --help lists the options.\n")


def main(arguments=None):
    """Print the report on the program that the arguments name; return the exit status."""
    options = vars(parser().parse_args(arguments))
    as_json, verbose, seconds, target = (
        options.pop(name) for name in ("json", "verbose", "seconds", "target"))
    report = report_on(target, options, seconds)
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="replace")  # where a terminal has no √
    print(json.dumps(report.to_dict(), ensure_ascii=False, indent=1) if as_json else
          report.full() if verbose else report)
    return STATUS[report.verdict]


def parser():
    """Return the parser of the command line; its result has only the options that are given."""
    made = Parser(usage=f"{COMMAND} FILE.py:NAME [options]", epilog=EPILOG,
                  description="Examine an attention program and name the fault that it has.",
                  formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
                  argument_default=argparse.SUPPRESS)
    add = made.add_argument
    add("target", metavar="FILE.py:NAME", help="a function, class or module object in a "
        "file or notebook; only this and what it needs is run")
    add("--level", choices=("kernel", "layer", "decode", "decoding"),
        help="default: layer for modules and classes, and else kernel")
    add("--causal", nargs="?", const=True, type=lambda text: False if text == "no" else text,
        choices=("top_left", "bottom_right", False), metavar="top_left|bottom_right|no",
        help="it is to apply a causal mask by itself; with the alignment, if n_q may differ from "
        "n_k; no: it must not (default: found out)")
    add("--fully-masked", choices=("zeros", "nan", "average", "unmasked"),
        help="what a fully masked row must get (default: any of these)")
    add("--masks", choices=("any", "heads alike", "padding", "none"),
        type=lambda text: text.replace("-", " "), help="the masks that it takes (default: any)")
    add("--framework", choices=("numpy", "torch", "tensorflow"),
        help="default: the frameworks that the code mentions are tried first")
    add("--grouped", action="store_true", help="k and v may have fewer heads than q")
    add("--parts", metavar="NAME=VALUE,…", type=_options.parts, help="parts that it is to have: "
        "rope=halves, rope=pairs:500000, qk_norm=rms, window=4, cap=50, sink=0, yarn=4")
    add("--json", action="store_true", default=False, help="print the report as JSON")
    add("--verbose", action="store_true", default=False, help="print all that was noticed")
    add("--seconds", type=float, default=60.0, help="the time limit (default: 60)")
    add = made.add_argument_group("options of a layer").add_argument
    add("--self-attention", action="store_true", help="memory is always x")
    add("--sequence-first", dest="batch_first", action="store_false", help="x is (i, b, d_in)")
    add("--pre-norm", action="store_true", help="a LayerNorm comes first in the layer")
    add("--residual", action="store_true", help="x is added to the result")
    add("--post-norm", action="store_true", help="a LayerNorm comes last in the layer")
    add("--n-heads", type=int, help="the number of heads of a module object")
    add("--call", metavar="NAME",
        help="a function call(module, x, memory, keep) -> out in the same file")
    add("--roles", metavar="q=NAME,…", type=_options.roles,
        help="the parts of a module that hold W_q, W_k, W_v and W_o")
    add("--packed", metavar="NAME", help="the part of a module that holds [q | k | v]")
    return made


def report_on(target, options, seconds):
    """Return the Report on FILE.py:NAME, which another process examines within the time limit."""
    file, _, name = target.rpartition(":")
    level = options.get("level", "")
    problem = refusal(target, Path(file), name)
    if problem:
        return Report(name or target, level, "could not examine", problem)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.json")
        request = json.dumps({"file": str(Path(file).resolve()), "name": name,
                              "options": options, "seconds": seconds})
        problem = run([sys.executable, "-P", "-c", START.format(PACKAGE, "doctor"), str(COURSE),
                       request, str(out)], seconds)
        if not problem and out.exists():
            report = spelled(json.loads(out.read_text("utf-8")))
            return Report(**report | {"then": in_shell(report["then"], file)})
    return Report(name, level, "could not examine",
                  problem or "its process ended before the examination did.")


def new_mark():
    """Return an environment variable, as a dict, by which ``end`` knows a process and its own."""
    return {MARK: str(uuid.uuid4())}


def end(process, mark):
    """End a process that leads a session, and all that it has started.

    A child with a session of its own is found by the mark, where the system has /proc.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
    words = "=".join(*mark.items()).encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            if words in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)


def spelled(text):
    """Return a text, or the texts of a list or dict, with `options` as the shell spells them."""
    if isinstance(text, dict):
        return {name: spelled(one) for name, one in text.items()}
    if isinstance(text, list):
        return [spelled(one) for one in text]
    return re.sub(r"`(\w+)=(.*?)`", lambda found: f"`{_option(*found.groups())}`",
                  text.replace("in the shell, ", ""))


def _option(name, value):
    """Return an option of a function as one of the command."""
    if value == "True":
        return f"--{name.replace('_', '-')}"
    pairs = re.sub(r'[{}"]', "", value).replace(": ", "=").replace(", ", ",").replace(" ", "-")
    return f"--{name.replace('_', '-')} {'no' if value == 'False' else pairs}"


def in_shell(then, file):
    """Return a call of ``examine`` as a command on a file; "" stays as it is."""
    if not then:
        return ""
    name, *options = then.removeprefix("examine(").removesuffix(")").split(", ")
    return " ".join([COMMAND, f"{file}:{name}", *(
        _option(*one.split("=", 1)) for one in options)])


def refusal(target, file, name):
    """Return a sentence on why this target is not run, or ""."""
    if "://" in target:
        return ("the doctor opens no addresses; save the program as a file, read it, and pass the "
                "name of the file.")
    if not file.name or not all(part.isidentifier() for part in name.split(".")):
        return f"the name of the program is missing; expected {target.partition(':')[0]}:NAME."
    if file.suffix not in (".py", ".ipynb"):
        return ("the doctor runs Python source only; expected FILE.py:NAME or FILE.ipynb:NAME, got "
                f"{target!r}.")
    return "" if file.is_file() else f"there is no file {file}."


def run(command, seconds):
    """Run a command within the time limit and end all that it starts; return what went wrong."""
    mark = new_mark()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True,
                               env=ONE_THREAD | os.environ | mark)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"it did not finish within {seconds:g} seconds; --seconds sets another limit."
    except KeyboardInterrupt:
        return "it was interrupted."
    finally:
        end(process, mark)
    return f"signal {-status} ended its process." if status < 0 else ""
