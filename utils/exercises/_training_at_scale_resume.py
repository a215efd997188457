"""Judge of `three_bugs` in the chapter on training at scale: which of the bugs are left."""

from copy import deepcopy
from functools import cache
from itertools import combinations

import torch

from ..models.language_model import LanguageModel
from ..parallel.data import lines_of, share_of_mean, summed_loss, take_step

STEPS, SAVED = 8, 4
MISTAKES = {
    "averages": "the optimiser does not load its averages of the gradients before the stop",
    "skipped": f"the first step after the stop is skipped (steps 0 to {SAVED - 1} are done)",
    "rate": "the learning rate starts again after the stop",
    "weights": "the model does not load its parameters",
    "lines": "the lines of the first steps are read again",
    "again": f"step {SAVED - 1} is taken twice (steps 0 to {SAVED - 1} are done)",
}


def _new():
    """Return a new model and optimiser, as in the chapter."""
    torch.manual_seed(0)
    model = LanguageModel(94, d_model=24, n_heads=3, n_layers=2)
    return model, torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))


def _go_on(state, texts, n_steps, mistakes=()):
    """Return (model, optimiser) after ``n_steps``, with some of MISTAKES."""
    model, optimiser = _new()
    if state and "weights" not in mistakes:
        model.load_state_dict(state["model"])
    if state and "averages" not in mistakes:
        optimiser.load_state_dict(deepcopy(state["optimiser"]))
    done = state["step"] if state else 0
    first = done
    if "skipped" in mistakes:
        first += 1
    if "again" in mistakes:
        first -= 1
    for step in range(first, n_steps):
        lines = lines_of(step - done if "lines" in mistakes else step, texts)
        rate = 0.01 * (1 - (step - done if "rate" in mistakes else step) / STEPS)
        take_step(optimiser, share_of_mean(*summed_loss(model, lines)), rate)
    return model, optimiser


@cache
def _case():
    """Return the texts, the saved state, and {set of mistakes: the final parameters}."""
    texts = torch.randint(94, (24, 16), generator=torch.Generator().manual_seed(1))
    texts[torch.arange(24) % 3 > 0, 9:] = -1
    model, optimiser = _go_on(None, texts, SAVED)
    state = deepcopy({"model": model.state_dict(), "optimiser": optimiser.state_dict(),
                      "step": SAVED})
    sets = [found for size in range(4) for found in combinations(MISTAKES, size)
            if not {"skipped", "again"} <= set(found)]
    return texts, state, {found: _flat(_go_on(state, texts, STEPS, found)[0]) for found in sets}


def _flat(model):
    """Return all parameters of a model in one row."""
    return torch.cat([part.detach().flatten().double() for part in model.parameters()])


def resume(program):
    """Return what is wrong with a program that goes on from a state, "" if nothing is."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        texts, state, ends = _case()
        model = program(deepcopy(state), texts.clone(), STEPS)
    finally:
        torch.set_default_dtype(dtype)
    if not isinstance(model, torch.nn.Module):
        return f"go_on must return the model, not {type(model).__name__}."
    got = _flat(model)
    if got.shape != ends[()].shape:
        return f"The model must have {len(ends[()])} parameters; yours has {len(got)}."
    for mistakes, parameters in ends.items():
        if (got - parameters).abs().max() < 1e-9:
            if not mistakes:
                return ""
            return f"It ends like a run in which {'; '.join(MISTAKES[name] for name in mistakes)}."
    return ("Its parameters differ from those of the uninterrupted run, and from those of all "
            "known mistakes. Print the step and the learning rate of each step, and compare.")
