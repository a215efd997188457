"""Attempts at the exercises on today's decoder."""

import torch

WRONG_AT = {"pairing": 5, "gain": 6, "window": 3, "start": 0}


def split(W, n_heads, n_kv_heads):
    d = len(W) // (n_heads + 2 * n_kv_heads)
    return W.split([n_heads * d, n_kv_heads * d, n_kv_heads * d])


def sliced(W, n_heads, n_kv_heads):
    d = len(W) // (n_heads + 2 * n_kv_heads)
    k, v = n_heads * d, (n_heads + n_kv_heads) * d
    return [W[:k], W[k:v], W[v:]]


def by_group(W, n_heads, n_kv_heads):
    """Read it as if the heads of q came with their head of k and v."""
    group = n_heads // n_kv_heads
    d = len(W) // (n_heads + 2 * n_kv_heads)
    parts = W.unflatten(0, (n_kv_heads, group + 2, d))
    return (parts[:, :group].flatten(0, 2), parts[:, group].flatten(0, 1),
            parts[:, group + 1].flatten(0, 1))


def min_p(logits, share):
    p = logits.softmax(dim=-1)
    p = p.where(p >= share * p.amax(dim=-1, keepdim=True), 0)
    return p / p.sum(dim=-1, keepdim=True)


def min_p_of_logits(logits, share):
    limit = logits.amax(dim=-1, keepdim=True) + torch.tensor(share).log()
    return logits.masked_fill(logits < limit, -torch.inf).softmax(dim=-1)


def changed(keep, divide=True):
    def program(logits, share):
        p = logits.softmax(dim=-1)
        left = p * keep(p, share, logits)
        return left / left.sum(dim=-1, keepdim=True) if divide else left
    return program


def in_place(logits, share):
    logits[logits < logits.amax(dim=-1, keepdim=True) + torch.tensor(share).log()] = -torch.inf
    return logits.softmax(dim=-1)


def limit(p, share, logits):
    return p >= share * p.amax(dim=-1, keepdim=True)


RIGHT = {"wrong": [WRONG_AT], "fused": [split, sliced], "min_p": [min_p, min_p_of_logits]}
WRONG = {
    "wrong": [
        (WRONG_AT | {"pairing": 6}, "The first token attends only to itself"),
        (WRONG_AT | {"pairing": 1}, "Which tokens have more than one key"),
        (WRONG_AT | {"gain": 5}, "multiplies the last x of every position"),
        (WRONG_AT | {"window": 2}, "counts the query's own position"),
        (WRONG_AT | {"window": 6}, "the first query that has a fourth key"),
        (WRONG_AT | {"start": 6}, "the difference of two positions"),
        (WRONG_AT | {"start": None}, "Still open: start"),
        (3, "a dict with the keys")],
    "fused": [
        (lambda W, h, kv: W.chunk(3), "Did you cut thirds?"),
        (by_group, "q must begin with row 0 of W, and yours has rows 0, 1, 2"),
        (lambda W, h, kv: (split(W, h, kv)[0], *split(W, h, kv)[:0:-1]),
         "k must begin with row 12 of W"),
        (lambda W, h, kv: W, "three arrays"),
        (lambda W, h, kv: split(W, h, kv)[:2], "three arrays"),
        (lambda W, h, kv: [part.T for part in split(W, h, kv)], "q must be (12, 5)"),
        (7, "a function or a class")],
    "min_p": [
        (changed(limit, divide=False), "must add up to 1"),
        (lambda logits, share: logits.softmax(dim=-1), "it keeps all tokens"),
        (changed(lambda p, share, _: p >= share), "not share"),
        (changed(lambda p, share, _: p >= share * p.max()), "not of the whole batch"),
        (changed(lambda p, share, logits: logits >= share * logits.amax(-1, keepdim=True)),
         "it compares logits"),
        (changed(lambda *given: ~limit(*given)), "keeps the unlikely tokens"),
        (changed(lambda p, *_: p == p.amax(-1, keepdim=True)), "the likeliest tokens only"),
        (changed(lambda p, share, _: p > 0.5 * share * p.amax(-1, keepdim=True)),
         "it differs from the right answer by"),
        (in_place, "must not change the logits"),
        (lambda logits, share: min_p(logits, share)[0], "it must return (b, token) = (3, 11)")]}
