"""The process in which ``utils.exercises.capstone.command`` runs the reader's file."""

import json
import os
import sys
from pathlib import Path

from ...source import RefusalError, read
from .._check import not_attempted, run_judge
from .milestones import MILESTONES
from .training import written


def main():
    """Judge the file of the arguments, write the progress after each milestone, and end.

    The process ends at once, as Python would wait for a thread of the reader that never ends.
    """
    _, _, file, out = sys.argv
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # what is compared is all on the CPU
    for progress in judged(Path(file)):
        partial = Path(out).with_suffix(".part")
        partial.write_text(json.dumps(progress), "utf-8")
        partial.replace(out)
    os._exit(0)


def judged(file):
    """Yield what is known so far, before each milestone and at the end.

    {"held": names, "failing": the milestone that is judged or fails, "problem", "done"}; if all
    hold, "written" says what the model has learned.
    """
    try:
        module = read(file)
    except RefusalError as refusal:
        yield {"held": [], "failing": "", "problem": f"{refusal}.", "done": True}
        return
    held = []
    for name, milestone in MILESTONES.items():
        yield {"held": held, "failing": name, "problem": "", "done": False}
        problem = problem_of(module, milestone)
        if problem:
            yield {"held": held, "failing": name, "problem": problem, "done": True}
            return
        held = [*held, name]
    end = {"held": held, "failing": "", "problem": "", "done": True}
    yield end
    yield {**end, "written": written(module.train, module.Model, module.write)}


def problem_of(module, milestone):
    """Return "" or what is wrong with a milestone; any error becomes a sentence."""
    wanted = f"{milestone.defines}({milestone.arguments})"
    try:
        if not module.make(milestone.defines):
            return f"{Path(module.__file__).name} does not define {wanted}."
        answer = getattr(module, milestone.defines)
        if not_attempted(answer):
            return f"{wanted} is still empty."
        more = [module.Model] if milestone.with_model else []
        problem = run_judge(lambda given: milestone.judge(given, *more), answer)
        return f"{wanted} raises NotImplementedError." if problem is None else problem
    except RefusalError as refusal:
        return f"{refusal}."
    except BaseException as error:  # the reader's code should not raise SystemExit, but may
        return f"It raises {type(error).__name__}."
