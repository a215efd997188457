"""Attempts at the exercises on the language model."""

from functools import partial

import numpy as np
import torch

TELLS = {"training": False, "held_out": False, "noise": True, "text": True, "leaks": True,
         "chunks": True}


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


@torch.no_grad()
def beam(model, vocabulary, start, length, width, chances=torch.log_softmax, forgets=False,
         own=False, pick=0):
    """Keep the likeliest beginnings; the options are mistakes."""
    beams, scores = torch.tensor([[vocabulary.index(c) for c in start]]), torch.zeros(1)
    for _ in range(length):
        children = (0 if forgets else scores[:, None]) + chances(model(beams)[:, -1], -1)
        if own and len(beams) == width:
            scores, last = children.max(dim=-1)
            beams = torch.cat((beams, last[:, None]), dim=1)
        else:
            scores, n = children.flatten().topk(width)
            rows, last = n // len(vocabulary), n % len(vocabulary)
            beams = torch.cat((beams[rows], last[:, None]), dim=1)
    best = scores.argsort(descending=True)[pick]
    return "".join(vocabulary[token] for token in beams[best])


def beam_in_lists(model, vocabulary, start, length, width):
    beams = [(1.0, start)]
    for _ in range(length):
        children = []
        for chance, words in beams:
            tokens = torch.tensor([[vocabulary.index(c) for c in words]])
            shares = model(tokens)[0, -1].softmax(0).tolist()
            children += [(chance * share, words + c)
                         for share, c in zip(shares, vocabulary, strict=True)]
        beams = sorted(children, reverse=True)[:width]
    return beams[0][1]


def greedy(model, vocabulary, start, length, width):
    return beam(model, vocabulary, start, length, 1)


RIGHT = {
    "which_number_tells": [TELLS, TELLS | {"noise": np.True_}],
    "nucleus": [nucleus, by_rows, by_logits],
    "beam": [beam, beam_in_lists],
}

WRONG = {
    "which_number_tells": [
        (TELLS | {"held_out": True}, "is also given whole"),
        (TELLS | {"training": True}, "Does it look different in training"),
        (TELLS | {"noise": False, "text": False}, "can it copy it"),
        (TELLS | {"chunks": False}, "And in chunks?"),
        (TELLS | {"leaks": None}, "Still open: leaks"),
        ([True] * 6, "a dict with the keys")],
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
    "beam": [
        (greedy, "always takes the likeliest character"),
        (partial(beam, chances=lambda logits, dim: logits), "log_softmax does"),
        (partial(beam, chances=torch.softmax), "is a product"),
        (partial(beam, forgets=True), "by their last character alone"),
        (partial(beam, own=True), "none of them can have two children"),
        (partial(beam, pick=-1), "the least likely of the beginnings"),
        (lambda *given: beam(*given)[3:], "the start is missing"),
        (lambda *given: beam(*given)[:-1], "it returns 7 characters"),
        (lambda *given: list(beam(*given)), "a str that begins with 'cab', not list"),
        (lambda *given: beam(*given)[:-1] + "a", "is not the likeliest text that is kept")],
}
