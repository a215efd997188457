"""Attempts at the exercises on a multi-head layer."""

import math

import torch
from torch import nn


class Mine(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in "qkvo")

    def split(self, x):
        b, n, e = x.shape
        return x.view(b, n, self.n_heads, e // self.n_heads).transpose(1, 2)

    def merge(self, x):
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)

    def scale(self, x):
        return math.sqrt(x.shape[-1] // self.n_heads)

    def weights(self, scores, keep):
        return scores.masked_fill(~keep, -math.inf).softmax(dim=-1)

    def forward(self, x, memory, keep):
        q, k, v = map(self.split, (self.W_q(x), self.W_k(memory), self.W_v(memory)))
        scores = q @ k.transpose(-2, -1) / self.scale(x)
        return self.W_o(self.merge(self.weights(scores, keep) @ v))


class LargeNegative(Mine):
    def weights(self, scores, keep):
        return torch.where(keep, scores, -1e9).softmax(dim=-1)


class TornSplit(Mine):
    def split(self, x):
        return x.view(x.shape[0], self.n_heads, x.shape[1], -1)


class TornMerge(Mine):
    def merge(self, x):
        return x.reshape(x.shape[0], x.shape[2], -1)


class WholeWidth(Mine):
    def scale(self, x):
        return math.sqrt(x.shape[-1])


class NoScale(Mine):
    def scale(self, x):
        return 1.0


class Inverted(Mine):
    def weights(self, scores, keep):
        if keep is None:
            return scores.softmax(dim=-1)
        return scores.masked_fill(keep, -math.inf).softmax(dim=-1)


class OverQueries(Mine):
    def weights(self, scores, keep):
        return scores.masked_fill(~keep, -math.inf).softmax(dim=-2)


class NoMask(Mine):
    def weights(self, scores, keep):
        return scores.softmax(dim=-1)


class OnlyX(Mine):
    def forward(self, x, memory, keep):
        return super().forward(x, x, keep)


def exchanged(packed):
    q, k, v = packed.chunk(3)
    return torch.cat([q, v, k])


def rows(packed):
    e = len(packed) // 3
    return packed.numpy()[[*range(e), *range(2 * e, 3 * e), *range(e, 2 * e)]]


def columns(packed):
    q, k, v = packed.chunk(3, dim=-1)
    return torch.cat([q, v, k], dim=-1)


def reordered(order):
    return lambda packed: torch.cat([packed.chunk(3)[n] for n in order])


NOTICES = {"shape": False, "row sums": False, "causality": False, "training": False,
           "reference": True, "translate": exchanged}

def twelve_rows(packed):
    return torch.cat([packed[:12], packed[24:], packed[12:24]])


RIGHT = {
    "empty_cell": [Mine, LargeNegative],
    "stripes": [NOTICES, NOTICES | {"translate": rows}]}

WRONG = {
    "empty_cell": [
        (TornSplit, "split without transpose"),
        (TornMerge, "merge without transpose"),
        (WholeWidth, "scale by sqrt(d_model)"),
        (NoScale, "no scale"),
        (Inverted, "mask inverted"),
        (OverQueries, "softmax over queries"),
        (NoMask, "mask ignored"),
        (OnlyX, "does not depend on token 0"),
        (Mine(12, 3), "Hand over the class itself"),
        (lambda x, memory, keep: x, "Hand over the class itself")],
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
