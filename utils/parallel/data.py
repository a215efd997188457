"""Training in several processes, each with its part of the batch. Taught in `training_at_scale`.

A step depends only on its number, and not on the number of processes. All functions but `clip`
also work in a single process, without `torch.distributed`.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

PADDING = -1


def place():
    """Return (rank, number of processes); (0, 1) without a process group."""
    if not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def together():
    """Wait for all ranks; in a single process, return at once."""
    if place()[1] > 1:
        dist.barrier()


def lines_of(step, texts, batch=8):
    """Return the batch of lines of a step, integers (batch, m).

    ``texts`` are (n, m). The number of the step is the seed of the draw, so all ranks draw the same
    lines.
    """
    generator = torch.Generator().manual_seed(step)
    drawn = torch.randperm(len(texts), generator=generator)[:batch]
    return texts[drawn]


def dealt(step, texts):
    """Return this rank's lines of a step: line rank, rank + p, and so on."""
    rank, p = place()
    return lines_of(step, texts)[rank::p]


def summed_loss(model, lines):
    """Return (the summed loss in nats, the number of characters) of lines.

    The first character of a line is not predicted. ``lines`` are integers (b, m) that end in
    ``PADDING``, which is not counted.
    """
    logits = model(lines[:, :-1].clamp(min=0))  # (b, m - 1, vocabulary)
    wanted = lines[:, 1:]
    total = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(),
                            ignore_index=PADDING, reduction="sum")
    return total, (wanted != PADDING).sum()


def share_of_mean(total, count):
    """Return this rank's loss; its mean over all ranks is the mean loss.

    ``total`` and ``count`` are those of ``summed_loss``; the counts of all ranks are summed by an
    all-reduce.
    """
    everywhere, (_, p) = count.clone(), place()
    if p > 1:
        dist.all_reduce(everywhere)
    return p * total / everywhere


def take_step(optimiser, loss, rate):
    """Take one optimiser step on a loss, with the learning rate ``rate``."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def clip(parameters, limit):
    """Scale sharded gradients to a norm of at most limit; return the norm.

    All ranks must call it. ``parameters`` are DTensors that are sharded over all ranks, as
    ``fully_shard`` makes them; those without a gradient are left out. The squared norms of the
    ranks are summed by an all-reduce.
    """
    shards = [side.grad.to_local() for side in parameters
              if side.grad is not None]
    square = sum(shard.square().sum() for shard in shards)
    dist.all_reduce(square)
    norm = square.sqrt()
    for shard in shards:
        shard.mul_(torch.clamp(limit / norm, max=1))
    return norm
