"""The judge of a sampler that keeps only the likeliest tokens."""

import torch

from utils.exercises._answers import listed


def kept(chances, p):
    """Return which tokens the nucleus of each row holds, (b, token) -> bool."""
    falling, order = chances.sort(dim=-1, descending=True, stable=True)
    before = falling.cumsum(dim=-1) - falling
    return torch.zeros_like(chances, dtype=torch.bool).scatter(-1, order, before < p)


def nucleus(given):
    """Return what is wrong with a function nucleus(logits, p), "" if nothing is."""
    generator = torch.Generator().manual_seed(0)
    logits = 1.5 * torch.randn(4, 11, generator=generator, dtype=torch.float64)
    for p in (0.6, 0.9, 0.05, 1.0):
        before = logits.clone()
        found = given(logits, p)
        if not torch.equal(logits, before):
            return "It writes into the logits that it was given."
        if not isinstance(found, torch.Tensor) or found.shape != logits.shape:
            shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
            return f"For logits (4, 11) it returns probabilities (4, 11), not {shape}."
        told = _told(found, logits.softmax(dim=-1), p)
        if told:
            return told
    return ""


def _told(found, chances, p):
    """Return what is wrong with probabilities that should be those of the nucleus."""
    stays = kept(chances, p)
    right = chances * stays / (chances * stays).sum(dim=-1, keepdim=True)
    if (found - right).abs().max() < 1e-6:
        return ""
    for other, why in _others(chances, stays, p):
        if (found - other).abs().max() < 1e-6:
            return why
    sums, count = found.sum(dim=-1), int((found[0] > 0).sum())
    return listed([part for part in (
        f"The probabilities of row 0 add up to {sums[0]:.3f}." * bool(abs(sums[0] - 1) > 1e-6),
        f"With p = {p}, row 0 keeps {count} tokens; {int(stays[0].sum())} are needed."
        * (count != int(stays[0].sum()))) if part]) or (
            f"With p = {p} the right number of tokens stays, but not with the right "
            "probabilities: is each back in its place?")


def _others(chances, stays, p):
    """Yield wrong probabilities and what is wrong with them."""
    falling, order = chances.sort(dim=-1, descending=True)
    yield chances * stays, "The right tokens stay, but their probabilities no longer add up to 1."
    yield chances, "Nothing is cut off: these are the model's own probabilities."
    less = torch.zeros_like(stays).scatter(-1, order, falling.cumsum(dim=-1) <= p)
    yield _share(chances * less), (
        "One token too few: those that stay must add up to *at least* p. The one that reaches it "
        "belongs to them.")
    yield _share(chances * (chances >= p)), (
        "p is compared with the probability of each token alone. Add them up, from the largest "
        "down.")
    yield _share(falling * stays.gather(-1, order)), (
        "The probabilities are still sorted: token 0 got the largest. Bring each back to its "
        "place.")
    rising, back = chances.sort(dim=-1)
    tail = torch.zeros_like(stays).scatter(-1, back, rising.cumsum(dim=-1) - rising < p)
    yield _share(chances * tail), "Those are the *least* likely tokens: sort from the largest down."
    one = stays[:1].expand_as(stays)
    yield _share(chances * one), "Row 0 decides for all rows; each row has a nucleus of its own."


def _share(parts):
    """Return rows divided by their sums; rows of zeros stay."""
    return parts / parts.sum(dim=-1, keepdim=True).clamp(min=1e-300)
