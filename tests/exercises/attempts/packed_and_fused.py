"""Attempts at the exercises on packed projections and fused attention."""

import torch
import torch.nn.functional as F


def drop(weights, p, training):
    if not training:
        return weights
    kept = torch.rand_like(weights) >= p
    return weights * kept / (1 - p)


def by_bernoulli(weights, p, training):
    if training:
        weights = torch.bernoulli(torch.full_like(weights, 1 - p)) * weights / (1 - p)
    return weights


def in_place(weights, p, training):
    return weights.mul_(torch.rand_like(weights) >= p).div_(1 - p) if training else weights


def unscaled(weights, p, training):
    return weights * (torch.rand_like(weights) >= p) if training else weights


def scaled_in_evaluation(weights, p, training):
    return weights * (torch.rand_like(weights) >= p) if training else weights * (1 - p)


def kept_with_p(weights, p, training):
    return weights * (torch.rand_like(weights) < p) / p if training else weights


def summing_to_one(weights, p, training):
    if not training:
        return weights
    weights = weights * (torch.rand_like(weights) >= p)
    return weights / weights.sum(dim=-1, keepdim=True)


def whole_keys(weights, p, training):
    kept = torch.rand(weights.shape[-1]) >= p
    return weights * kept / (1 - p) if training else weights


def seeded(weights, p, training):
    torch.manual_seed(1)
    return drop(weights, p, training)


def none_dropped_but_scaled(weights, p, training):
    return weights / (1 - p) if training else weights


def exchanged(packed):
    q, k, v = packed.chunk(3)
    return torch.cat([q, v, k])


def rows(packed):
    e = len(packed) // 3
    return packed.numpy()[[*range(e), *range(2 * e, 3 * e), *range(e, 2 * e)]]


def columns(packed):
    q, k, v = packed.chunk(3, dim=-1)
    return torch.cat([q, v, k], dim=-1)


def twelve_rows(packed):
    return torch.cat([packed[:12], packed[24:], packed[12:24]])


def reordered(order):
    return lambda packed: torch.cat([packed.chunk(3)[n] for n in order])


NOTICES = {"shape": False, "row sums": False, "causality": False, "training": False,
           "reference": True, "translate": exchanged}

RIGHT = {
    "drop": [drop, by_bernoulli, lambda weights, p, training: F.dropout(weights, p, training)],
    "stripes": [NOTICES, NOTICES | {"translate": rows}]}

WRONG = {
    "drop": [
        (unscaled, "the mean falls to 75%"),
        (scaled_in_evaluation, "With training=False it multiplies by 1 - p"),
        (kept_with_p, "Is it the kept share that is p?"),
        (summing_to_one, "Each row is divided by its sum"),
        (whole_keys, "All examples, heads and queries lose the same weights"),
        (seeded, "Does it set a seed?"),
        (in_place, "It changes the weights that it is given"),
        (none_dropped_but_scaled, "no weight is 0"),
        (lambda weights, p, training: F.dropout(weights, p), "in evaluation nothing is dropped"),
        (lambda weights, p, training: F.dropout(weights, p, training)[0], "it returns (3, 50, 70)"),
        (lambda weights, p, training: None if training else weights, "it returns NoneType")],
    "stripes": [
        (NOTICES | {"training": True}, "which program do you get"),
        (NOTICES | {"reference": False}, "With copied parameters"),
        (NOTICES | {"causality": True, "row sums": True}, "The mask acts on the scores"),
        (NOTICES | {"translate": columns}, "along which axis"),
        (NOTICES | {"translate": reordered((0, 1, 2))}, "would take for k what your colleague"),
        (NOTICES | {"translate": reordered((2, 1, 0))}, "take the first block for q"),
        (NOTICES | {"translate": reordered((1, 2, 0))}, "two of the three blocks"),
        (NOTICES | {"translate": reordered((2, 0, 1))}, "All three blocks have moved"),
        (NOTICES | {"translate": twelve_rows}, "right for d_model = 12 and wrong for 16"),
        (NOTICES | {"training": 0}, "Answer True or False"),
        (NOTICES | {"translate": lambda packed: packed.flip(0)}, "not three whole blocks"),
        (NOTICES | {"translate": lambda packed: packed[:12]}, "it returns (12, 11)"),
        (NOTICES | {"translate": lambda packed: packed.split(12, 1, 2)}, "raises TypeError")]}
