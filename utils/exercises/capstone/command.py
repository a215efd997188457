"""The judge in a shell: ``python -m utils.exercises.capstone FILE.py``.

Another process, ``_child``, runs the reader's file, as in ``utils.doctor.command``; what the file
prints is not shown. The exit status is 0 if all milestones hold, 1 if one does not, and 2 if the
file could not be run.
"""

import contextlib
import json
import sys
import tempfile
import textwrap
from pathlib import Path

from ...doctor.command import START, Parser, run
from ...setup import COURSE, PACKAGE
from .._check import Feedback

NAMES = ("attention", "mask", "heads", "block", "model", "training", "writing")
EPILOG = """milestones, in this order, and what the file must define for each:
  attention   attention(q, k, v, keep)
  mask        causal(n)
  heads       MultiHead(d_model, n_heads)
  block       Block(d_model, n_heads)
  model       Model(n_tokens, d_model, n_heads, n_layers)
  training    train(model, tokens, steps)
  writing     write(model, tokens, n, temperature)

exit status: 0 all hold; 1 one does not; 2 the file could not be run."""


def main(arguments=None):
    """Print which milestones hold and what is wrong with the first other; return the status."""
    given = parser().parse_args(arguments)
    file = Path(given.file)
    refused = refusal(file)
    if not refused:
        held, failing, problem, written = judged(file, given.seconds)
        refused = problem if not failing else ""
    if refused:
        print(f"The file could not be judged: {refused}")
        return 2
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="replace")  # where a terminal has no →
    for name in held:
        print(f"{name}: right.")
    if problem:
        print(Feedback(False, f"{failing}: not yet. {problem}"))
    print(f"{len(held)} of {len(NAMES)} milestones hold.")
    if written:
        sentence, piece = written.split("\n\n", 1)
        print(f"{Feedback(True, sentence)}\n{textwrap.indent(piece, '    ')}")
    return 1 if problem else 0


def parser():
    """Return the parser of the command line."""
    import argparse
    made = Parser(usage=f"python -m {PACKAGE}.exercises.capstone FILE.py [--seconds N]",
                  description="Judge a transformer that you have written, milestone by milestone.",
                  epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
                  allow_abbrev=False)
    made.add_argument("file", metavar="FILE.py", help="a file or notebook; only the seven names "
                      "and what they need are run")
    made.add_argument("--seconds", type=float, default=180.0,
                      help="the time limit for all together (default: 180)")
    return made


def refusal(file):
    """Return a sentence on why this file is not run, or ""."""
    if file.suffix not in (".py", ".ipynb"):
        return f"expected FILE.py or FILE.ipynb, got {str(file)!r}."
    return "" if file.is_file() else f"there is no file {file}."


def judged(file, seconds):
    """Return (milestones that hold, the first other or "", what is wrong with it, what it wrote).

    If the file itself is at fault, the second is "" and the third says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "progress.json")
        start = START.format(PACKAGE, "exercises.capstone")
        problem = run([sys.executable, "-P", "-c", start, str(COURSE), str(file.resolve()),
                       str(out)], seconds)
        if not out.exists():
            return [], "", problem or "its process ended before it was read.", ""
        progress = json.loads(out.read_text("utf-8"))
    if not progress["done"]:
        progress["problem"] = problem or "the process that ran it ended in the middle."
        if "did not finish" in problem:
            progress["problem"] += (" On a slow or busy computer, this says nothing against your "
                                    "file.")
    return (progress["held"], progress["failing"], progress["problem"],
            progress.get("written", ""))
