"""A training loop that can be interrupted and resumed with the same result.

A ``Run`` holds all that training changes: the model, its optimisers, the generator that draws
batches, the step and the measurements. All of it is saved and loaded together, so an interrupted
run ends with the same parameters as an uninterrupted one.
"""

import math
import numbers
import time
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from torch import nn
from tqdm import tqdm

from .. import checks, files
from . import _saved


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
        self.steps = checks.count(self.steps, "steps")
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group.setdefault("initial_lr", group["lr"])


def new_run(model, optimisers, steps, seed=0):
    """Return a Run at step 0 that draws its batches with ``seed``."""
    return Run(model, list(optimisers), steps, torch.Generator().manual_seed(seed))


def extend(run, steps):
    """Let ``run`` end later, at ``steps``; return it.

    Its learning rate rises at once, because it now falls to 0 at the new end. (To train a trained
    model as if it were new, pass it to ``new_run``.) Raises ValueError unless ``steps`` is more
    than before.
    """
    run.steps = checks.count(steps, "steps", least=run.steps + 1)
    return run


def linear_decay(step, steps):
    """Return the factor of the learning rate at a step: from 1 down to 0 after the last."""
    return 1 - step / steps


def train(run, loss_of, until=None, *, decay=linear_decay, clip=1.0, every=None, measure=None,
          path=None):
    """Train to step ``until`` (default: the end), changing ``run``; return it.

    ``loss_of(model, generator)`` draws a batch and returns its loss. Gradients are clipped to the
    norm ``clip``. Every ``every`` steps and at the end, ``measure(model)``, a dict of floats, is
    appended to ``run.history`` with step and seconds, and the run is saved to ``path``. Raises
    FloatingPointError when the loss or a gradient is not finite, before the parameters change, and
    ValueError for ``until`` past the end of the run, a negative ``decay`` or a ``clip`` of 0 or
    less.
    """
    until = run.steps if until is None else checks.count(until, "until", least=0)
    _may_train(run, until, clip, every, path)
    with tqdm(total=until, initial=run.step, unit="step") as bar:
        while run.step < until:
            start = time.perf_counter()
            loss = one_step(run, loss_of, _share(decay, run), clip)
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


def _may_train(run, until, clip, every, path):
    """Raise unless ``train`` can do what it is asked to."""
    if until > run.steps:
        raise ValueError(f"until={until} is past the end of the run, steps={run.steps}, where the "
                         f"learning rate is 0; to train further, call extend(run, {until}) first")
    if isinstance(clip, bool) or not isinstance(clip, numbers.Real):
        raise TypeError(f"clip must be a number, got {clip!r}; math.inf clips nothing")
    if not clip > 0:
        raise ValueError(f"clip must be greater than 0, because it is a norm, got {clip}")
    if every is not None:
        checks.count(every, "every")
    if path is not None:
        files.folder(path)


def _share(decay, run):
    """Return the factor of the learning rate at the step of a run, 0 or more."""
    share = decay(run.step, run.steps)
    if not 0 <= share < math.inf:
        raise ValueError(f"decay must return 0 or more, got {share} at step {run.step} of "
                         f"{run.steps}")
    return share


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
    """Return ``measure(model)``, a dict of floats, in evaluation and without gradients."""
    model.eval()
    with torch.no_grad():
        found = measure(model)
    try:
        return {name: float(value) for name, value in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"measure must return a dict of numbers, got {found!r}") from error


def save(run, path):
    """Write a run to ``path``, whole or not at all, as ``files.write`` does.

    Raises TypeError, before anything is written, when ``load`` could not read it.
    """
    try:
        data = _saved.written(run)
    except Exception as error:
        raise TypeError(f"the run cannot be saved to {path}, because it could not be loaded again: "
                        "history and optimisers may hold only numbers, str and tensors "
                        f"({type(error).__name__})") from error
    files.write(path, data)


def load(run, path):
    """Load a saved run into ``run``, which was created in the same way; return it.

    Learning rates are loaded, too. The file is read without running code from it. Raises
    FileNotFoundError when there is no file, ValueError when it is damaged or holds a run with
    another number of steps, another model or other optimisers; ``run`` is then unchanged.
    """
    data = files.read(path, "training.save")
    try:
        state = _saved.read(data)
    except Exception as error:
        raise ValueError(f"{path} is not a run that training.save wrote: it is damaged, incomplete "
                         "or another kind of file, and nothing was loaded") from error
    for name, saved, ours in _saved.compared(state, run):
        if saved != ours:
            raise ValueError(f"{path} holds a run with {name} {saved}, but this run has {ours}; "
                             "create it as the saved one was")
    before = deepcopy(_saved.state(run))
    try:
        _saved.put(run, state)
    except Exception as error:
        _saved.put(run, before)
        raise ValueError(f"{path} holds a run that does not fit this one: {error}") from error
    return run
