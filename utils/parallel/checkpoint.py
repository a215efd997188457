"""Checkpoints that p processes write and any number of processes reads.

Taught in `training_at_scale`. Each process writes the shards that it holds, with
`torch.distributed.checkpoint`, into a folder that is renamed when all shards are written. Loading
unpickles data, so load only files that you have written yourself.
"""

import contextlib
import json
import secrets
import shutil
import warnings
from pathlib import Path

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as by_name

from .. import files
from .data import place, together

SEAL = "sha256.json"


def save(model, optimiser, step, folder):
    """Write model, optimiser and step to ``folder/step-<step>``.

    All ranks must call it. The folder has another name until it is complete. Raises OSError if
    there is a checkpoint of this step already.
    """
    whole = Path(folder, f"step-{step}")
    weights, averages = by_name.get_state_dict(model, optimiser)
    state = {"model": weights, "optimiser": averages, "step": step}
    with unfinished(whole) as part:  # a new name, the same on all ranks
        with warnings.catch_warnings(action="ignore"):  # it warns if alone
            dcp.save(state, checkpoint_id=part)
        if place()[0] == 0:
            seal(part)
            part.rename(whole)
        together()


@contextlib.contextmanager
def unfinished(whole):
    """Yield the path of a new folder beside ``whole``, the same on all ranks, to be renamed.

    If an error is raised in the block, the folder is deleted. Those of killed runs are deleted
    first, unless another run writes there. Raises FileExistsError if ``whole`` exists, OSError when
    it cannot be written.
    """
    if whole.exists():
        raise FileExistsError(f"{whole} exists, and no checkpoint is written over; delete it, or "
                              "save to another folder")
    rank, lock = place()[0], contextlib.nullcontext()
    if rank == 0:
        whole.parent.mkdir(parents=True, exist_ok=True)
        lock = files.beside_others(whole.parent, f"unfinished-{'[0-9a-f]' * 8}")
    with lock:
        part = whole.with_name(f"unfinished-{_told(secrets.token_hex(4))[0]}")
        try:
            yield part
        except BaseException as error:
            if rank == 0:
                shutil.rmtree(part, ignore_errors=True)
            if not isinstance(error, dcp.CheckpointException):
                raise
            cause, *_ = next(iter(error.failures.values()))
            raise OSError(f"{whole} was not written, because of this error: {cause}") from error


def seal(folder):
    """Write the SHA-256 of each file of a folder beside them."""
    found = {path.name: files.sha256(path) for path in sorted(folder.iterdir())}
    files.write(folder / SEAL, json.dumps(found, indent=1).encode())


def unbroken(path, model, optimiser):
    """Raise ValueError unless the checkpoint ``path`` is as it was saved, from such a model.

    Each rank reads its share of the files. One that was never sealed can only be compared with
    model and optimiser.
    """
    for fault in _told(_damage(path)):  # so all ranks raise, or none
        if fault:
            raise ValueError(f"{path} is damaged: {fault}; delete this folder to go on from the "
                             "checkpoint before it")
    try:
        saved = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint that was saved here; move it elsewhere, or "
                         "rename it") from error
    theirs = {name: f"{part.properties.dtype} {tuple(part.size)}" if hasattr(part, "size")
              else "an option"
              for name, part in saved.items()
              if name.startswith(("model.", "optimiser.param_groups."))}
    ours = {f"model.{name}": f"{part.dtype} {tuple(part.shape)}"
            for name, part in by_name.get_model_state_dict(model).items()}
    ours |= {f"optimiser.param_groups.{n}.{key}": "an option"
             for n, group in enumerate(optimiser.param_groups) for key in group}
    for name in {**theirs, **ours}:
        if theirs.get(name) != ours.get(name):
            raise ValueError(f"{path} is of another model or optimiser: {name} must be "
                             f"{ours.get(name, 'absent')}, got {theirs.get(name, 'nothing')}")


def _damage(path):
    """Return what is wrong with this rank's share of the files of a checkpoint, "" if nothing."""
    if not (path / SEAL).exists():
        return ""
    rank, p = place()
    try:
        sealed = files.read_json(path / SEAL, "save")
        names = sorted(found.name for found in path.iterdir() if found.name != SEAL)
        if names != sorted(sealed):
            return f"it must hold the files {sorted(sealed)}, got {names}"
        other = [name for name in names[rank::p] if files.sha256(path / name) != sealed[name]]
        return f"{other[0]} is not as it was written" if other else ""
    except (ValueError, TypeError) as error:
        return str(error)


def _told(something):
    """Return what each rank has passed to this call, a list."""
    told = [something] * place()[1]
    if place()[1] > 1:
        dist.all_gather_object(told, something)
    return told


def newest(folder):
    """Return the path of the latest complete checkpoint, or None."""
    whole = [path for path in Path(folder).glob("step-*")
             if path.name[5:].isdecimal() and path.is_dir()]
    return max(whole, key=lambda path: int(path.name[5:]), default=None)


def load(model, optimiser, folder):
    """Load the newest checkpoint into model and optimiser; return its step.

    The step is 0 if there is no checkpoint. Each process reads the shards that it needs, however
    many processes have written them. Raises ValueError, before anything is changed, when a file is
    damaged or the checkpoint is of another model or optimiser.
    """
    path = newest(folder)
    if path is None:
        return 0
    unbroken(path, model, optimiser)
    weights, averages = by_name.get_state_dict(model, optimiser)
    state = {"model": weights, "optimiser": averages, "step": 0}
    with warnings.catch_warnings(action="ignore"):
        dcp.load(state, checkpoint_id=path)
    by_name.set_state_dict(model, optimiser, model_state_dict=state["model"],
                           optim_state_dict=state["optimiser"])
    return state["step"]
