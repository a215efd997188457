"""Attempts at the exercises on states."""

import torch

from utils.attention.state import recurrent
from utils.exercises.state_not_cache import _loop, per_dimension

PADDING = {"linear, v": True, "decay, v": False, "delta, v": False, "delta, k": True}
MEMORY = {"tokens": 1024, "GiB, hybrid": 24.07, "GiB, all full": 96}


def right(q, k, v, log_decay, beta):
    return per_dimension(q, k, v, log_decay, beta)[0]


def by_einsum(q, k, v, log_decay, beta):
    state, contexts = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1]).to(k), []
    for key, query, value, log, strength in zip(
            *(x.unbind(2) for x in (k, q, v, log_decay, beta)), strict=True):
        state = torch.einsum("bhd,bhde->bhde", log.exp(), state)
        new = strength[..., None] * (value - torch.einsum("bhd,bhde->bhe", key, state))
        state = state + torch.einsum("bhd,bhe->bhde", key, new)
        contexts.append(torch.einsum("bhd,bhde->bhe", query, state))
    return torch.stack(contexts, dim=2)


def wrong(**options):
    return lambda *args: _loop(*args, **options)


def in_place(q, k, v, log_decay, beta):
    log_decay.exp_()
    return _loop(q, k, v, log_decay, beta, base=lambda decay: decay)


RIGHT = {"padding": [PADDING], "per_dimension": [right, by_einsum],
         "memory": [MEMORY, MEMORY | {"GiB, hybrid": 24 + 72 / 1024, "tokens": 2 ** 10}]}
WRONG = {
    "padding": [
        (PADDING | {"linear, v": False}, "What does it add if v is 0?"),
        (PADDING | {"decay, v": True}, "what else does a token do"),
        (PADDING | {"delta, v": True}, "What is that if v is 0?"),
        (PADDING | {"delta, k": False}, "What is that if k is 0?"),
        (PADDING | {"delta, k": None}, "Still open: delta, k"),
        (False, "a dict with the keys")],
    "per_dimension": [
        (wrong(order="after"), "decays after the write"),
        (wrong(order="between"), "before it has decayed"),
        (wrong(columns=True), "along the columns"),
        (wrong(base=lambda log: log), "take exp of it"),
        (wrong(base=lambda log: 1 + log), "not 1 + log_decay"),
        (wrong(delta=False), "without subtracting"),
        (wrong(early=True), "reads before its own token"),
        (lambda q, k, v, g, beta: _loop(q, k, v, g, torch.ones_like(beta)), "beta is not used"),
        (lambda q, k, v, g, beta: recurrent(q, k, v, None, beta)[0], "nothing decays"),
        (lambda q, k, v, g, beta: recurrent(q, k, v, g.mean(-1), beta)[0], "decay alike"),
        (per_dimension, "the context alone"),
        (lambda q, k, v, g, beta: v[0], "it must return (b, h, i, d_v)"),
        (lambda q, k, v, g, beta: v, "it differs from the loop by"),
        (lambda q, k, v, g, beta: recurrent(q, k, v, g, beta)[0], "It raises ValueError"),
        (in_place, "it changes its arguments"),
        (17, "a function or a class")],
    "memory": [
        (MEMORY | {"tokens": 3072}, "one layer of each kind"),
        (MEMORY | {"tokens": 512}, "float32, with 4 bytes"),
        (MEMORY | {"tokens": 5}, "Bytes of one state"),
        (MEMORY | {"GiB, hybrid": 96}, "Add the cache of the 12 full layers"),
        (MEMORY | {"GiB, all full": 24}, "All 48 layers cache"),
        (MEMORY | {"tokens": None}, "Still open: tokens")]}
