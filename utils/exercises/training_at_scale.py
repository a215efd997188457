"""The exercises of the chapter on training at scale."""

import numpy as np

from utils.exercises._check import Check, Exercise
from utils.exercises._epochs import once_an_epoch
from utils.exercises._resumed import resumed

COUNTS = ([[5, 12, 7], [9, 4, 30]], [[3, 8], [11, 2], [6, 6], [1, 9]])
# What a wrong formula makes of the counts (p, m), and what to think of again.
WRONG = (
    (lambda n: n / n.sum(),
     "the average over the ranks divides by their number, and nothing makes up for it."),
    (lambda n: n.shape[1] * n / n.sum(),
     "that is times the number of micro-batches. Which of the two is divided by: the number of "
     "micro-batches or the number of ranks?"),
    (lambda n: n.size * n / n.sum(),
     "the gradients of micro-batches add up; nothing divides by their number."),
    (lambda n: n / n.sum(axis=1, keepdims=True),
     "each rank then has the mean of its own characters, and the average over ranks is a mean of "
     "means."),
    (lambda n: len(n) * n / n.sum(axis=1, keepdims=True),
     "each rank divides by its own number of characters, and not by all."),
    (lambda n: np.full(n.shape, 1 / n.shape[1]),
     "a mean of means, where each micro-batch counts alike, however few characters it has."),
    (lambda n: np.full(n.shape, 1 / n.size),
     "each micro-batch counts alike, however few characters it has."),
    (lambda n: np.ones(n.shape),
     "left as they are, the gradients of a rank add up to a sum of means."),
    (lambda n: len(n) / n.sum() * np.ones(n.shape),
     "right for sums over characters. But the loss of a micro-batch is a mean: it was divided by "
     "its own count already."),
)


def _factors(program):
    """Return what is wrong with factors(counts), "" if nothing is."""
    import torch
    for counts in map(np.array, COUNTS):
        answer = program(torch.tensor(counts.tolist()))
        try:
            got = np.asarray(answer, dtype=float)
        except (ValueError, TypeError):
            return "numbers are asked for, a factor for each micro-batch."
        where = f"{counts.shape[0]} ranks with {counts.shape[1]} micro-batches each: "
        if got.shape != counts.shape:
            return f"{where}factors of shape {counts.shape} are asked for, not {got.shape}."
        if not np.allclose(got, len(counts) * counts / counts.sum(), rtol=1e-4):
            said = [why for wrong, why in WRONG if np.allclose(got, wrong(counts), rtol=1e-4)]
            return where + (said[0] if said else
                            "added up in a rank and averaged over ranks, they do not make the "
                            "mean over all characters.")
    return ""


check = Check({
    "three_bugs": Exercise(resumed, (
        "Go through what a checkpoint holds, and look where each part of it is used.",
        "Four steps done are steps 0, 1, 2 and 3. Which is the next?",
        "Print the learning rate of the first step after the stop. What would it have been?"),
        "To the last bit. With any of the three, the loss would have fallen all the same."),
    "micro_batches": Exercise(_factors, (
        "Write down the gradient that you want: the sum over all characters, divided by their "
        "number. What is one micro-batch's part of it?",
        "A mean times its count is a sum. Then divide by the count of all.",
        "What happens to the gradients of p ranks afterwards?"),
        "A mean, times its own count, is a sum; divided by the count of all, a share of the mean; "
        "and p undoes the average over the ranks. How many micro-batches there are does not "
        "matter."),
    "once_an_epoch": Exercise(once_an_epoch, (
        "Which epoch is step 7, if an epoch has three steps, and which step of it?",
        "Draw one order of all lines for each epoch, by its number. It must not depend on p.",
        "Cut the batch of the step out of the order first, and deal that out to the ranks."),
        "The batch of a step is fixed before anybody asks who reads it. PyTorch's "
        "DistributedSampler deals out likewise; there, set_epoch must be called for a new order."),
})
