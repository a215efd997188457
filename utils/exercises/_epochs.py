"""The exercise on epochs: which lines a rank reads, whatever the number of ranks."""

import numpy as np


def _numbers(program, step, rank, p, n, batch):
    """Return (numbers, ""), or (None, what is wrong with their form)."""
    answer = program(step, rank, p, n, batch)
    try:
        lines = np.asarray(answer)
    except (ValueError, TypeError):
        lines = np.empty(0)
    where = f"step {step}, rank {rank} of {p}, n = {n}, batch = {batch}: "
    if lines.ndim != 1 or lines.dtype.kind not in "iu":
        return None, where + "a list of integers is asked for."
    if len(lines) != batch // p:
        return None, where + f"a rank reads {batch // p} lines, and here they are {len(lines)}."
    if lines.min() < 0 or lines.max() >= n:
        return None, where + f"lines are 0 to {n - 1}, and here is {lines.min()} to {lines.max()}."
    return lines.tolist(), ""


def _step(program, step, p, n, batch):
    """Return (all numbers of a step, ""), or (None, what is wrong)."""
    every = []
    for rank in range(p):
        lines, problem = _numbers(program, step, rank, p, n, batch)
        if problem:
            return None, problem
        if lines != _numbers(program, step, rank, p, n, batch)[0]:
            return None, (f"asked twice for step {step} of rank {rank}, it gives different lines: "
                          "after a restart nobody knows what was drawn before.")
        every += lines
    if len(set(every)) < len(every):
        alike = "all ranks read the same" if len(set(every)) == batch // p else \
            f"only {len(set(every))} different lines are read"
        return None, f"step {step} with {p} ranks: {alike}, and {batch} were wanted."
    return every, ""


def once_an_epoch(program):
    """Return what is wrong with reads(step, rank, p, n, batch), "" if nothing is."""
    for n, batch, sizes in ((24, 8, (1, 2, 4)), (36, 6, (1, 2, 3))):
        orders = []
        for epoch in range(3):
            order, problem = _epoch(program, epoch, n, batch, sizes)
            if problem:
                return problem
            orders.append([frozenset(order[k:k + batch]) for k in range(0, n, batch)])
        if orders[0] == orders[1] or orders[1] == orders[2]:
            return ("two epochs read the same lines together, step by step: a new order is asked "
                    "for.")
    return ""


def _epoch(program, epoch, n, batch, sizes):
    """Return (all numbers of an epoch in their order, ""), or (None, what is wrong)."""
    order = []
    for step in range(epoch * n // batch, (epoch + 1) * n // batch):
        read = {}
        for p in sizes:
            read[p], problem = _step(program, step, p, n, batch)
            if problem:
                return None, problem
            new, gone = set(read[p]) - set(read[1]), set(read[1]) - set(read[p])
            if new:
                return None, (f"step {step} reads other lines with {p} ranks than with one: "
                              f"{sorted(new)} instead of {sorted(gone)}.")
        order += read[1]
    if sorted(order) != list(range(n)):
        twice = sorted({line for line in order if order.count(line) > 1})
        return None, (f"epoch {epoch} of {n} lines in batches of {batch}: lines {twice[:4]} are "
                      "read more than once, and others not at all.")
    return order, ""
