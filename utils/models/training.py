"""A training loop that can be interrupted and resumed with the same result.

A ``Run`` holds all that training changes: the model, its optimisers, the generator that draws
batches, the step and the measurements. All of it is saved and loaded together, so an interrupted
run ends with the same parameters as an uninterrupted one.
"""

import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm


@dataclass
class Run:
    """All that training changes. ``history`` holds one dict of floats for each measurement."""

    model: nn.Module
    optimisers: list
    steps: int                       # of the whole run, for the decay of the learning rate
    generator: torch.Generator       # draws the batches
    step: int = 0
    seconds: float = 0.0             # spent in steps
    history: list = field(default_factory=list)

    def __post_init__(self):
        """Store the initial learning rates of the optimisers."""
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group.setdefault("initial_lr", group["lr"])


def new_run(model, optimisers, steps, seed=0):
    """Return a Run at step 0 that draws its batches with ``seed``."""
    return Run(model, list(optimisers), steps, torch.Generator().manual_seed(seed))


def linear_decay(step, steps):
    """Return the factor of the learning rate at a step: from 1 down to 0 after the last."""
    return 1 - step / steps


def train(run, loss_of, until=None, *, decay=linear_decay, clip=1.0, every=None, measure=None,
          path=None):
    """Train to step ``until`` (default: the end), changing ``run``; return it.

    ``loss_of(model, generator)`` draws a batch and returns its loss. Gradients are clipped to the
    norm ``clip``. Every ``every`` steps and at the end, ``measure(model)``, a dict of floats, is
    appended to ``run.history`` with step and seconds, and the run is saved to ``path``. Raises
    FloatingPointError when the loss or a gradient is not finite, before the parameters change.
    """
    until = run.steps if until is None else until
    with tqdm(total=until, initial=run.step, unit="step") as bar:
        while run.step < until:
            start = time.perf_counter()
            loss = one_step(run, loss_of, decay(run.step, run.steps), clip)
            run.step, run.seconds = run.step + 1, run.seconds + time.perf_counter() - start
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}")
            if run.step == until or (every and run.step % every == 0):
                if measure is not None:
                    run.history.append({"step": run.step, "seconds": run.seconds,
                                        **measured(run.model, measure)})
                if path is not None:
                    save(run, path)
    return run


def one_step(run, loss_of, share, clip):
    """Take one step at ``share`` times the learning rates; return the loss, a float."""
    run.model.train()
    for optimiser in run.optimisers:
        optimiser.zero_grad(set_to_none=True)
    loss = loss_of(run.model, run.generator)
    _finite(loss, "loss", run)
    loss.backward()
    _finite(nn.utils.clip_grad_norm_(run.model.parameters(), clip), "norm of the gradient", run)
    for optimiser in run.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["initial_lr"] * share
        optimiser.step()
    return loss.item()


def _finite(number, name, run):
    """Raise FloatingPointError unless a number is finite."""
    if not math.isfinite(number.item()):
        raise FloatingPointError(
            f"the {name} must be finite, got {number.item()} at step {run.step}; the parameters "
            "are those of the step before. Try a smaller learning rate, or inspect the batch")


def measured(model, measure):
    """Return ``measure(model)`` in evaluation and without gradients."""
    model.eval()
    with torch.no_grad():
        return measure(model)


def save(run, path):
    """Write a run to ``path``; if the write is interrupted, the old file stays unchanged."""
    path = Path(path)
    state = {"model": run.model.state_dict(), "step": run.step, "steps": run.steps,
             "seconds": run.seconds, "kinds": _kinds(run),
             "optimisers": [optimiser.state_dict() for optimiser in run.optimisers],
             "generator": run.generator.get_state(), "history": run.history}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)  # in one step, on the same disk
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def load(run, path):
    """Load a saved run into ``run``, which was created in the same way; return it.

    Learning rates are loaded, too. The file is read without running code from it. Raises ValueError
    when the saved run has another number of steps, another model or other optimisers.
    """
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name, saved, ours in (("steps", state["steps"], run.steps),
                              ("optimisers", state["kinds"], _kinds(run))):
        if saved != ours:
            raise ValueError(f"{path} holds a run with {name} {saved}, but this run has {ours}")
    try:
        run.model.load_state_dict(state["model"])
    except RuntimeError as error:
        raise ValueError(f"{path} holds another model: {error}") from error
    for optimiser, saved in zip(run.optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(saved)
    run.generator.set_state(state["generator"])
    run.step, run.seconds, run.history = state["step"], state["seconds"], state["history"]
    return run


def _kinds(run):
    """Return the type of each optimiser and its number of parameters, a list of str."""
    return [f"{type(optimiser).__name__} of "
            f"{sum(len(group['params']) for group in optimiser.param_groups)}"
            for optimiser in run.optimisers]
