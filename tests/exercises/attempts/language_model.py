"""Attempts at the exercises on the language model."""

import numpy as np
import torch

TELLS = {"training": False, "held_out": False, "noise": True, "text": True, "leaks": True,
         "chunks": True}
NEEDED = {"muon": True, "adamw": True, "step": True, "generator": True, "history": False,
          "torch_seed": False}


def nucleus(logits, p):
    falling, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    falling = falling * (falling.cumsum(dim=-1) - falling < p)
    chances = torch.zeros_like(falling).scatter(-1, order, falling)
    return chances / chances.sum(dim=-1, keepdim=True)


def by_rows(logits, p):
    rows = []
    for row in logits.tolist():
        chances = torch.tensor(row, dtype=torch.float64).softmax(0)
        total, stays = 0.0, set()
        for n in chances.argsort(descending=True).tolist():
            if total >= p:
                break
            stays.add(n)
            total += chances[n].item()
        rows.append([c.item() / total if n in stays else 0.0 for n, c in enumerate(chances)])
    return torch.tensor(rows)


def by_logits(logits, p):
    falling, order = logits.sort(dim=-1, descending=True)
    chances = falling.softmax(dim=-1)
    falling = falling.masked_fill(chances.cumsum(dim=-1) - chances >= p, float("-inf"))
    return falling.gather(-1, order.argsort(dim=-1)).softmax(dim=-1)


def share(parts):
    return parts / parts.sum(dim=-1, keepdim=True)


def too_few(logits, p):
    falling, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    falling = falling * (falling.cumsum(dim=-1) <= p)
    return torch.zeros_like(falling).scatter(-1, order, falling).clamp(min=0) / falling.sum(
        dim=-1, keepdim=True).clamp(min=1e-300)


def below(logits, p, back=True, shared=True):
    """Keep tokens while the sum is at most p, as one writes it first; empty rows are NaN."""
    falling, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    falling = falling * (falling.cumsum(dim=-1) <= p)
    parts = torch.zeros_like(falling).scatter(-1, order, falling) if back else falling
    return share(parts) if shared else parts


def below_by_logits(logits, p):
    falling, order = logits.sort(dim=-1, descending=True)
    falling = falling.masked_fill(falling.softmax(-1).cumsum(-1) > p, float("-inf"))
    return torch.zeros_like(falling).scatter(-1, order, falling.softmax(-1))


def unsorted(logits, p):
    chances = logits.softmax(dim=-1)
    return share(chances * (chances.cumsum(dim=-1) <= p))


def sorted_still(logits, p):
    falling = logits.softmax(dim=-1).sort(dim=-1, descending=True).values
    return share(falling * (falling.cumsum(dim=-1) - falling < p))


def alone(logits, p):
    chances = logits.softmax(dim=-1)
    parts = chances * (chances >= p)
    return parts / parts.sum(dim=-1, keepdim=True).clamp(min=1e-300)


def least(logits, p):
    rising, order = logits.softmax(dim=-1).sort(dim=-1)
    rising = rising * (rising.cumsum(dim=-1) - rising < p)
    return share(torch.zeros_like(rising).scatter(-1, order, rising))


def unshared(logits, p):
    return nucleus(logits, p) * (logits.softmax(dim=-1) * (nucleus(logits, p) > 0)).sum(
        dim=-1, keepdim=True)


def top_four(logits, p):
    chances = logits.softmax(dim=-1)
    return share(chances * (chances >= chances.topk(4).values[:, -1:]))


def writes(logits, p):
    logits[logits < 0] = float("-inf")
    return logits.softmax(dim=-1)


def first_row(logits, p):
    stays = nucleus(logits, p)[:1] > 0
    return share(logits.softmax(dim=-1) * stays)


RIGHT = {
    "which_number_tells": [TELLS, TELLS | {"noise": np.True_}],
    "what_must_be_saved": [NEEDED, NEEDED | {"history": np.False_}],
    "nucleus": [nucleus, by_rows, by_logits],
}

WRONG = {
    "which_number_tells": [
        (TELLS | {"held_out": True}, "is also given whole"),
        (TELLS | {"training": True}, "Does it look different in training"),
        (TELLS | {"noise": False, "text": False}, "can it copy it"),
        (TELLS | {"chunks": False}, "And in chunks?"),
        (TELLS | {"leaks": None}, "Still open: leaks"),
        ([True] * 6, "a dict with the keys")],
    "what_must_be_saved": [
        (NEEDED | {"muon": False, "adamw": False}, "two averages of the earlier gradients"),
        (NEEDED | {"step": False}, "the learning rate at step 5 of 8"),
        (NEEDED | {"generator": False}, "Which batches follow after step 5"),
        (NEEDED | {"history": True}, "or do only you"),
        (NEEDED | {"torch_seed": True}, "There is no dropout")],
    "nucleus": [
        (too_few, "one token too few"),
        (below, "must *reach* p"),
        (below_by_logits, "0 / 0 is NaN"),
        (lambda logits, p: below(logits, p, shared=False), "must *reach* p"),
        (lambda logits, p: below(logits, p, back=False), "And the probabilities are still sorted"),
        (unsorted, "in the order of the vocabulary"),
        (sorted_still, "still sorted"),
        (alone, "of each token alone"),
        (least, "the *least* likely"),
        (unshared, "no longer add up to 1"),
        (top_four, "row 0 keeps 4 tokens"),
        (writes, "changes the logits in place"),
        (first_row, "Row 0 decides for all"),
        (lambda logits, p: logits.softmax(dim=-1), "No token is removed"),
        (lambda logits, p: nucleus(logits, p)[0], "not (11,)"),
        (lambda logits, p: nucleus(logits, p).argmax(dim=-1), "not (4,)")],
}
