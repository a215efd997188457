"""Training by several processes, each with its share of the batch. Taught in `training_at_scale`.

What is done in a step depends on its number alone, never on how many processes do it. In a single
process, without `torch.distributed`, the same functions do the same.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

PADDING = -1


def place():
    """Return which process this is, and of how many: (0, 1) where there is no group of them."""
    if not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def together():
    """Wait until every rank is here; a single process goes on at once."""
    if place()[1] > 1:
        dist.barrier()


def lines_of(step, texts, batch=8):
    """Return the lines that are learned from in a step, integers (n, m) -> (batch, m).

    They are drawn by the number of the step, so that whoever asks is told the same.
    """
    generator = torch.Generator().manual_seed(step)
    drawn = torch.randperm(len(texts), generator=generator)[:batch]
    return texts[drawn]


def dealt(step, texts):
    """Return this rank's share of the lines of a step, dealt out like cards."""
    rank, p = place()
    return lines_of(step, texts)[rank::p]


def summed_loss(model, lines):
    """Return the sum of the losses of all characters but the first, in nats, and their number.

    ``lines``, integers (b, m), end in ``PADDING``, which counts for nothing.
    """
    logits = model(lines[:, :-1].clamp(min=0))  # (b, m - 1, vocabulary)
    wanted = lines[:, 1:]
    total = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(),
                            ignore_index=PADDING, reduction="sum")
    return total, (wanted != PADDING).sum()


def share_of_mean(total, count):
    """Return the loss of this rank's share: over all ranks, these *average* to the mean loss.

    ``total`` and ``count`` as from ``summed_loss``; their counts are added up over the ranks.
    """
    everywhere, (_, p) = count.clone(), place()
    if p > 1:
        dist.all_reduce(everywhere)
    return p * total / everywhere


def take_step(optimiser, loss, rate):
    """Take one step down the gradient of a loss, with the learning rate ``rate``."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
