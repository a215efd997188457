"""The state of a ``training.Run``: as bytes, and back."""

import hashlib
import io

import torch

LENGTH = (64).to_bytes(2, "little")  # of the comment of a zip archive: its last field


def state(run):
    """Return all that is saved of a run, a dict."""
    return {"model": run.model.state_dict(), "step": run.step, "steps": run.steps,
            "seconds": run.seconds, "kinds": _kinds(run),
            "optimisers": [optimiser.state_dict() for optimiser in run.optimisers],
            "generator": run.generator.get_state(), "history": run.history}


def put(run, saved):
    """Put what ``state`` returned into a run."""
    run.model.load_state_dict(saved["model"])
    for optimiser, part in zip(run.optimisers, saved["optimisers"], strict=True):
        optimiser.load_state_dict(part)
    run.generator.set_state(saved["generator"])
    run.step, run.seconds, run.history = saved["step"], saved["seconds"], saved["history"]


def written(run):
    """Return the bytes of a run. Raises some error if ``read`` could not read them.

    They are a zip archive, as of ``torch.save``, and the SHA-256 of that archive as its comment.
    """
    stream = io.BytesIO()
    torch.save(state(run), stream)
    archive = stream.getvalue()
    data = archive[:-2] + LENGTH + hashlib.sha256(archive).hexdigest().encode()
    read(data)
    return data


def read(data):
    """Return the state in these bytes. Raises some error if one bit is not as it was written."""
    archive, length, digest = data[:-66] + bytes(2), data[-66:-64], data[-64:]
    if length != LENGTH or hashlib.sha256(archive).hexdigest().encode() != digest:
        raise ValueError("the SHA-256 is another one")
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def compared(saved, run):
    """Return (name, saved, ours) of all that must be equal before ``put``."""
    theirs, ours = _parts(saved["model"]), _parts(run.model.state_dict())
    return [("steps", saved["steps"], run.steps), ("optimisers", saved["kinds"], _kinds(run)),
            *((f"the parameter {name} of", theirs.get(name, "no such one"),
               ours.get(name, "no such one")) for name in {**theirs, **ours})]


def _parts(tensors):
    """Return {name: dtype and shape} of a dict of tensors."""
    return {name: f"{part.dtype} {tuple(part.shape)}" for name, part in tensors.items()}


def _kinds(run):
    """Return the type of each optimiser and its number of parameters, a list of str."""
    return [f"{type(optimiser).__name__} of "
            f"{sum(len(group['params']) for group in optimiser.param_groups)}"
            for optimiser in run.optimisers]
