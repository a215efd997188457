"""Attempts at the exercises on sparse attention."""

import math

import torch

from utils.attention.sparse import top_keys


def blocks(real, size):
    return torch.where(real, (real.long().cumsum(dim=-1) - 1) // size, -1)


def by_argmax(real, size):
    first = real.long().argmax(dim=-1, keepdim=True)
    return ((torch.arange(real.shape[-1]) - first) // size).masked_fill(~real, -1)


def by_index(real, size):
    return torch.where(real, torch.arange(real.shape[-1]) // size, -1)


def with_newest(scores, keep, n):
    later = keep.flip(-1).long().cumsum(dim=-1).flip(-1)
    return top_keys(scores.masked_fill(keep & (later == 1), math.inf), keep, n)


def beside(scores, keep, n):
    newest = torch.eye(keep.shape[-1], dtype=torch.bool) & keep
    return newest | top_keys(scores, keep & ~newest, n - 1)


def one_more(scores, keep, n):
    return (torch.eye(keep.shape[-1], dtype=torch.bool) & keep) | top_keys(scores, keep, n)


def masked_ones(scores, keep, n):
    best = scores.masked_fill(~keep, -math.inf).topk(n, dim=-1).indices
    return torch.zeros_like(keep).scatter(-1, best, True)


RIGHT = {"blocks": [blocks, by_argmax], "with_newest": [with_newest, beside]}
WRONG = {
    "blocks": [
        (by_index, "counted from the array index"),
        (lambda real, size: (real.long().cumsum(dim=-1) - 1).clamp(min=0) // size,
         "Padding must get −1"),
        (lambda real, size: torch.where(real, real.long().cumsum(dim=-1) // size, -1),
         "the blocks of real tokens are wrong"),
        (lambda real, size: blocks(real, size)[0], "a tensor of the shape"),
        (17, "a function or a class")],
    "with_newest": [
        (top_keys, "does not get its last allowed key"),
        (masked_ones, "A masked key is chosen"),
        (one_more, "more than n keys"),
        (lambda scores, keep, n: beside(-scores, keep, n), "of the highest scores"),
        (lambda scores, keep, n: keep.long(), "a tensor of bools"),
        (lambda scores, keep, n: keep[0], "It must have the shape"),
        (17, "a function or a class")]}
