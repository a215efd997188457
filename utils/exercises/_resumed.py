"""The exercise on a program that goes on from a checkpoint: which of its mistakes are left."""

from copy import deepcopy
from functools import cache
from itertools import combinations

import torch

from utils.models.language_model import LanguageModel
from utils.parallel.data import lines_of, share_of_mean, summed_loss, take_step

STEPS, SAVED = 8, 4
MISTAKES = {
    "averages": "its optimiser remembers nothing of the gradients before the stop",
    "skipped": f"the step after the stop is left out ({SAVED} steps are done: 0 to {SAVED - 1})",
    "rate": "its learning rate begins anew after the stop",
    "weights": "its model begins anew",
    "lines": "it reads the lines of the first steps once more",
    "again": f"it takes step {SAVED - 1} twice ({SAVED} steps are done: 0 to {SAVED - 1})",
}


def _fresh():
    """Return the chapter's model and optimiser at their start."""
    torch.manual_seed(0)
    model = LanguageModel(94, d_model=24, n_heads=3, n_layers=2)
    return model, torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))


def _go_on(state, texts, n_steps, mistakes=()):
    """Return the weights after ``n_steps``, reached with some of MISTAKES."""
    model, optimiser = _fresh()
    if state and "weights" not in mistakes:
        model.load_state_dict(state["model"])
    if state and "averages" not in mistakes:
        optimiser.load_state_dict(deepcopy(state["optimiser"]))
    done = state["step"] if state else 0
    for step in range(done + ("skipped" in mistakes) - ("again" in mistakes), n_steps):
        lines = lines_of(step - done * ("lines" in mistakes), texts)
        rate = 0.01 * (1 - (step - done * ("rate" in mistakes)) / STEPS)
        take_step(optimiser, share_of_mean(*summed_loss(model, lines)), rate)
    return model, optimiser


@cache
def _case():
    """Return the texts, what was saved, and the weights of each set of mistakes."""
    texts = torch.randint(94, (24, 16), generator=torch.Generator().manual_seed(1))
    texts[torch.arange(24) % 3 > 0, 9:] = -1
    model, optimiser = _go_on(None, texts, SAVED)
    state = deepcopy({"model": model.state_dict(), "optimiser": optimiser.state_dict(),
                      "step": SAVED})
    sets = [found for size in range(4) for found in combinations(MISTAKES, size)
            if not {"skipped", "again"} <= set(found)]
    return texts, state, {found: _flat(_go_on(state, texts, STEPS, found)[0]) for found in sets}


def _flat(model):
    """Return all weights of a model in one row."""
    return torch.cat([part.detach().flatten().double() for part in model.parameters()])


def resumed(program):
    """Return what is wrong with a program that goes on from a state, "" if nothing is."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        texts, state, ends = _case()
        model = program(deepcopy(state), texts.clone(), STEPS)
    finally:
        torch.set_default_dtype(dtype)
    if not isinstance(model, torch.nn.Module):
        return f"go_on returns the model; yours returns {type(model).__name__}."
    got = _flat(model)
    if got.shape != ends[()].shape:
        return f"The model has {len(ends[()])} weights, and yours {len(got)}."
    for found, weights in ends.items():
        if (got - weights).abs().max() < 1e-9:
            return ("It ends as a run of which this is true: "
                    + "; ".join(MISTAKES[name] for name in found) + ".") if found else ""
    return ("Its weights are not those of the run that was never stopped, nor those of a mistake "
            "known here. Print step and learning rate of each step it takes, and compare.")
