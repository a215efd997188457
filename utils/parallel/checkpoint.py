"""Checkpoints that p processes write and any number of processes reads.

Taught in `training_at_scale`. Each process writes the slices that it holds, with
`torch.distributed.checkpoint`, into a folder that is renamed when all slices are written. Loading
unpickles data, so load only files that you have written yourself.
"""

import shutil
import warnings
from pathlib import Path

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as by_name

from utils.parallel.data import place, together


def save(model, optimiser, step, folder):
    """Write model, optimiser and step to ``folder/step-<step>``.

    All ranks must call it. The folder has another name until it is complete. Raises OSError if
    there is a checkpoint of this step already.
    """
    whole = Path(folder, f"step-{step}")
    part = whole.with_name(f"unfinished-{step}")
    if place()[0] == 0:
        shutil.rmtree(part, ignore_errors=True)  # of an interrupted run
    together()  # no rank writes while rank 0 deletes
    weights, averages = by_name.get_state_dict(model, optimiser)
    state = {"model": weights, "optimiser": averages, "step": step}
    with warnings.catch_warnings(action="ignore"):  # it warns in a single process
        dcp.save(state, checkpoint_id=part)
    if place()[0] == 0:
        part.rename(whole)  # atomic: the checkpoint exists, or not
    together()  # no rank continues before it exists


def newest(folder):
    """Return the path of the latest complete checkpoint, or None."""
    whole = Path(folder).glob("step-*")
    return max(whole, key=lambda path: int(path.name[5:]), default=None)


def load(model, optimiser, folder):
    """Load the newest checkpoint into model and optimiser; return its step.

    The step is 0 if there is no checkpoint. Each process reads the slices that it needs, however
    many processes have written them.
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
