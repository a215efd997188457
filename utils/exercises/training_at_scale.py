"""The exercises of the chapter on training at scale."""

import numpy as np

from ._check import Check, Exercise
from ._training_at_scale_resume import resume

COUNTS = ([[5, 12, 7], [9, 4, 30]], [[3, 8], [11, 2], [6, 6], [1, 9]])
# (a wrong formula for counts (rank, micro-batch), message)
WRONG_FACTORS = (
    (lambda n: n / n.sum(),
     "the average over the ranks divides by their number, and your factors do not allow for that."),
    (lambda n: n.shape[1] * n / n.sum(),
     "you multiply by the number of micro-batches. By which number are gradients divided: that of "
     "the micro-batches or that of the ranks?"),
    (lambda n: n.size * n / n.sum(),
     "the gradients of micro-batches add up, so they are not divided by their number."),
    (lambda n: n / n.sum(axis=1, keepdims=True),
     "then each rank has the mean over its own characters, and the average over ranks is a mean of "
     "means."),
    (lambda n: len(n) * n / n.sum(axis=1, keepdims=True),
     "each rank divides by its own number of characters, not by the number of all."),
    (lambda n: np.full(n.shape, 1 / n.shape[1]),
     "that is a mean of means: each micro-batch has the same weight, however few characters it "
     "has."),
    (lambda n: np.full(n.shape, 1 / n.size),
     "each micro-batch has the same weight, however few characters it has."),
    (lambda n: np.ones(n.shape),
     "without factors, the gradients of a rank add up to a sum of means."),
    (lambda n: len(n) / n.sum() * np.ones(n.shape),
     "that would be right for sums over characters. But the loss of a micro-batch is a mean: it is "
     "divided by its own count already."),
)


def _factors(program):
    """Judge factors(counts)."""
    import torch
    for counts in map(np.array, COUNTS):
        answer = program(torch.tensor(counts.tolist()))
        try:
            got = np.asarray(answer, dtype=float)
        except (ValueError, TypeError):
            return "It must return numbers, one factor for each micro-batch."
        where = f"With {counts.shape[0]} ranks and {counts.shape[1]} micro-batches each, "
        if got.shape != counts.shape:
            return f"{where}factors must have the shape {counts.shape}, not {got.shape}."
        if not np.allclose(got, len(counts) * counts / counts.sum(), rtol=1e-4):
            messages = [message for wrong, message in WRONG_FACTORS
                        if np.allclose(got, wrong(counts), rtol=1e-4)]
            general = ("added up in a rank and averaged over ranks, the gradients are not that of "
                       "the mean over all characters.")
            return where + [*messages, general][0]
    return ""


def _lines(program, step, rank, p, n, batch):
    """Return (the lines that a rank reads, ""), or (None, what is wrong with their form)."""
    answer = program(step, rank, p, n, batch)
    try:
        lines = np.asarray(answer)
    except (ValueError, TypeError):
        lines = np.empty(0)
    where = f"For step {step}, rank {rank} of {p}, n = {n}, batch = {batch}, "
    if lines.ndim != 1 or lines.dtype.kind not in "iu":
        return None, where + "it must return a list of integers."
    if len(lines) != batch // p:
        return None, where + f"a rank must read {batch // p} lines, not {len(lines)}."
    if lines.min() < 0 or lines.max() >= n:
        return None, f"{where}lines must be 0 to {n - 1}, not {lines.min()} to {lines.max()}."
    return lines.tolist(), ""


def _step(program, step, p, n, batch):
    """Return (all lines of a step, ""), or (None, what is wrong)."""
    every = []
    for rank in range(p):
        lines, problem = _lines(program, step, rank, p, n, batch)
        if problem:
            return None, problem
        if lines != _lines(program, step, rank, p, n, batch)[0]:
            return None, (f"Two calls for step {step} of rank {rank} return different lines. After "
                          "a restart, the run would read other lines than before.")
        every += lines
    if len(set(every)) < len(every):
        problem = f"only {len(set(every))} different lines are read, not {batch}."
        if len(set(every)) == batch // p:
            problem = f"all ranks read the same {batch // p} lines, not {batch} different ones."
        return None, f"In step {step} with {p} ranks, {problem}"
    return every, ""


def _once_an_epoch(program):
    """Judge reads(step, rank, p, n, batch)."""
    for n, batch, sizes in ((24, 8, (1, 2, 4)), (36, 6, (1, 2, 3))):
        orders = []
        for epoch in range(3):
            order, problem = _epoch(program, epoch, n, batch, sizes)
            if problem:
                return problem
            orders.append([frozenset(order[k:k + batch]) for k in range(0, n, batch)])
        if orders[0] == orders[1] or orders[1] == orders[2]:
            return ("Two epochs read the same lines in each step, but every epoch needs a new "
                    "order.")
    return ""


def _epoch(program, epoch, n, batch, sizes):
    """Return (all lines of an epoch in their order, ""), or (None, what is wrong)."""
    order = []
    for step in range(epoch * n // batch, (epoch + 1) * n // batch):
        read = {}
        for p in sizes:
            read[p], problem = _step(program, step, p, n, batch)
            if problem:
                return None, problem
            new, gone = set(read[p]) - set(read[1]), set(read[1]) - set(read[p])
            if new:
                return None, (f"Step {step} reads other lines with {p} ranks than with one: "
                              f"{sorted(new)} instead of {sorted(gone)}.")
        order += read[1]
    if sorted(order) != list(range(n)):
        twice = sorted({line for line in order if order.count(line) > 1})
        return None, (f"In epoch {epoch} of {n} lines in batches of {batch}, lines {twice[:4]} are "
                      "read several times, and others not at all.")
    return order, ""


check = Check({
    "three_bugs": Exercise(resume, (
        "Go through the parts of a checkpoint, and look where the program uses each of them.",
        "After four steps, steps 0, 1, 2 and 3 are done. Which is the next?",
        "Print the learning rate of the first step after the stop. What would it be without the "
        "stop?"),
        "It equals the uninterrupted run. With any of the three bugs the loss would have fallen, "
        "too, so a falling loss does not catch them."),
    "micro_batches": Exercise(_factors, (
        "Write down the wanted gradient: the sum over all characters, divided by their number. "
        "What is the part of one micro-batch?",
        "A mean times its count is a sum. Then divide by the number of all characters.",
        "What happens afterwards to the gradients of the p ranks?"),
        "A mean times its own count is a sum. Divided by the number of all characters, it is a "
        "share of the mean, and p undoes the average over the ranks. The number of micro-batches "
        "does not matter."),
    "once_an_epoch": Exercise(_once_an_epoch, (
        "If an epoch has three steps, to which epoch does step 7 belong, and which step of it is "
        "it?",
        "Draw one order of all lines for each epoch, with its number as the seed. The order must "
        "not depend on p.",
        "First take the batch of the step from the order, and then split it between the ranks."),
        "The batch of a step does not depend on the number of ranks. PyTorch's DistributedSampler "
        "splits lines in the same way; there, you must call set_epoch for a new order."),
})
