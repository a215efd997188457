"""Attempts at the exercises on training at scale."""

import numpy as np
import torch

from utils.models.language_model import LanguageModel
from utils.parallel.data import lines_of, share_of_mean, summed_loss, take_step


def new_model():
    torch.manual_seed(0)
    return LanguageModel(94, d_model=24, n_heads=3, n_layers=2)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))


def go_on(state, texts, n_steps, averages=True, first=0, rate_from=0, lines_from=0, weights=True):
    model = new_model()
    optimiser = adamw(model)
    if weights:
        model.load_state_dict(state["model"])
    if averages:
        optimiser.load_state_dict(state["optimiser"])
    for step in range(state["step"] + first, n_steps):
        loss = share_of_mean(*summed_loss(model, lines_of(step - lines_from, texts)))
        take_step(optimiser, loss, 0.01 * (1 - (step - rate_from) / n_steps))
    return model


def with_while(state, texts, n_steps):
    model = new_model()
    model.load_state_dict(state["model"])
    optimiser, step = adamw(model), state["step"]
    optimiser.load_state_dict(state["optimiser"])
    while step < n_steps:
        total, count = summed_loss(model, lines_of(step, texts))
        for group in optimiser.param_groups:
            group["lr"] = 0.01 - 0.01 * step / n_steps
        optimiser.zero_grad()
        (total / count).backward()
        optimiser.step()
        step += 1
    return model


def as_printed(state, texts, n_steps):
    return go_on(state, texts, n_steps, averages=False, first=1, rate_from=state["step"])


def attempt(**wrong):
    return lambda state, texts, n_steps: go_on(state, texts, n_steps, **wrong)


def factors(counts):
    return len(counts) * counts / counts.sum()


def order(epoch, n):
    return np.random.default_rng(epoch).permutation(n)


def reads(step, rank, p, n, batch):
    epoch, within = divmod(step, n // batch)
    return order(epoch, n)[within * batch:][:batch][rank::p]


def in_halves(step, rank, p, n, batch):
    epoch, within = divmod(step * batch, n)
    own = batch // p
    return order(epoch, n)[within + rank * own:within + (rank + 1) * own].tolist()


def own_part(step, rank, p, n, batch):  # each rank has its own part of the lines
    epoch, within = divmod(step, n // batch)
    own = batch // p
    return order(epoch, n)[rank * n // p:(rank + 1) * n // p][within * own:(within + 1) * own]


def split_at_first(step, rank, p, n, batch):  # as DistributedSampler does: the same
    epoch, within = divmod(step, n // batch)
    own = batch // p
    return order(epoch, n)[rank::p][within * own:(within + 1) * own].tolist()


def one_order(step, rank, p, n, batch):
    return order(0, n)[step % (n // batch) * batch:][:batch][rank::p].tolist()


def by_rank(step, rank, p, n, batch):
    return np.random.default_rng([step, rank]).permutation(n)[:batch // p]


def by_step(step, rank, p, n, batch):
    return order(step, n)[:batch][rank::p].tolist()


def rank_forgotten(step, rank, p, n, batch):
    return reads(step, 0, p, n, batch)


def everything(step, rank, p, n, batch):
    return reads(step, 0, 1, n, batch)


def unseeded(step, rank, p, n, batch):
    return np.random.permutation(n)[:batch // p]


def no_end(step, rank, p, n, batch):
    return list(range(step * batch, (step + 1) * batch))[rank::p]


RIGHT = {
    "three_bugs": [attempt(), with_while],
    "micro_batches": [factors, lambda counts: counts / counts.double().mean() / counts.shape[1],
                      lambda counts: (len(counts) * counts / counts.sum()).tolist(),
                      lambda counts: np.asarray(counts) * 1.0 * len(counts) / int(counts.sum())],
    "once_an_epoch": [reads, in_halves, split_at_first,
                      lambda *a: torch.as_tensor(reads(*a).copy())],
}
WRONG = {
    "three_bugs": [
        (as_printed,
         "does not load its averages of the gradients before the stop; the first step after the "
         "stop "
                     "is skipped (steps 0 to 3 are done); the learning rate starts again"),
        (attempt(averages=False), "the optimiser does not load its averages"),
        (attempt(first=1), "the first step after the stop is skipped"),
        (attempt(rate_from=4), "the learning rate starts again"),
        (attempt(first=-1), "step 3 is taken twice"),
        (attempt(weights=False), "the model does not load its parameters"),
        (attempt(lines_from=4), "the lines of the first steps are read again"),
        (attempt(rate_from=-1), "from those of all known mistakes"),
        (lambda *a: go_on(*a).state_dict(), "go_on must return the model, not"),
        (lambda *a: LanguageModel(94, 24, 3, 1), "parameters; yours has"),
        (lambda state, texts, n_steps: state["weights"], "It raises KeyError"),
    ],
    "micro_batches": [
        (lambda n: n / n.sum(), "your factors do not allow for that"),
        (lambda n: n.shape[1] * n / n.sum(), "multiply by the number of micro-batches. By which"),
        (lambda n: n.numel() * n / n.sum(), "not divided by their number"),
        (lambda n: n / n.sum(dim=1, keepdim=True), "mean of means"),
        (lambda n: len(n) * n / n.sum(dim=1, keepdim=True), "divides by its own number"),
        (lambda n: torch.ones(n.shape) / n.shape[1], "that is a mean of means: each"),
        (lambda n: torch.ones(n.shape) / n.numel(), "batch has the same weight"),
        (lambda n: torch.ones(n.shape), "a sum of means"),
        (lambda n: torch.ones(n.shape) * len(n) / n.sum(), "right for sums over characters"),
        (lambda n: n / n.max(), "not that of the mean over all characters"),
        (lambda n: len(n), "factors must have the shape (2, 3), not ()"),
        (lambda n: ["a"], "It must return numbers"),
    ],
    "once_an_epoch": [
        (own_part, "Step 0 reads other lines with 2 ranks than with one"),
        (one_order, "Two epochs read the same lines"),
        (by_rank, "Step 0 reads other lines with 2 ranks than with one"),
        (by_step, "are read several times, and others not at all"),
        (rank_forgotten, "In step 0 with 2 ranks, all ranks read the same 4 lines"),
        (everything, "a rank must read 4 lines, not 8"),
        (unseeded, "Two calls for step 0 of rank 0 return different lines"),
        (no_end, "lines must be 0 to 23, not 24 to 31"),
        (lambda *a: "lines", "it must return a list of integers"),
    ],
}
