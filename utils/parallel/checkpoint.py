"""Checkpoints that p processes write and any other number reads. Taught in `training_at_scale`.

Each process writes the slices that it holds (`torch.distributed.checkpoint`), into a folder that
gets its name when all is written. Reading unpickles: load only what you have written yourself.
"""

import shutil
import warnings
from pathlib import Path

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as by_name

from utils.parallel.data import place, together


def save(model, optimiser, step, folder):
    """Write model, optimiser and step to ``folder/step-<step>``, all or nothing; all ranks call it.

    A folder that is not finished has another name. Raises OSError where there is one of that step.
    """
    whole = Path(folder, f"step-{step}")
    part = whole.with_name(f"unfinished-{step}")
    if place()[0] == 0:
        shutil.rmtree(part, ignore_errors=True)  # of a dead run
    together()  # none makes the folder anew while it goes
    weights, averages = by_name.get_state_dict(model, optimiser)
    state = {"model": weights, "optimiser": averages, "step": step}
    with warnings.catch_warnings(action="ignore"):  # alone, it says so
        dcp.save(state, checkpoint_id=part)
    if place()[0] == 0:
        part.rename(whole)  # at once: it is there, or it is not
    together()  # and whoever goes on finds it


def newest(folder):
    """Return the path of the latest checkpoint that was finished, or None."""
    whole = Path(folder).glob("step-*")
    return max(whole, key=lambda path: int(path.name[5:]), default=None)


def load(model, optimiser, folder):
    """Put the newest checkpoint into model and optimiser; return its step, 0 if there is none.

    Whatever number of processes has written it, each takes the slices that it needs.
    """
    path = newest(folder)
    if path is None:
        return 0
    weights, averages = by_name.get_state_dict(model, optimiser)
    state = {"model": weights, "optimiser": averages, "step": 0}
    with warnings.catch_warnings(action="ignore"):
        dcp.load(state, checkpoint_id=path)
    by_name.set_state_dict(model, optimiser, model_state_dict=state["model"],
                           optim_state_dict=state["optimiser"])
    return state["step"]
