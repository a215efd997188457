"""Attempts at the exercises on a multi-head layer."""

import math

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_head) for _ in "qkv")

    def forward(self, x, memory, keep):
        q, k, v = self.W_q(x), self.W_k(memory), self.W_v(memory)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.size(x, q))
        if keep is not None:
            scores = scores.masked_fill(~self.fitting(keep), -math.inf)
        return scores.softmax(dim=-1) @ v

    def size(self, x, q):
        return q.shape[-1]

    def fitting(self, keep):
        return keep[:, 0]


class HeadOfModelSize(Head):
    def size(self, x, q):
        return x.shape[-1]


class HeadWithoutItsAxis(Head):
    def fitting(self, keep):
        return keep


class ListOfHeads(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = self.listed([self.head(d_model, d_model // n_heads) for _ in range(n_heads)])
        self.W_o = nn.Linear(d_model, d_model)

    def head(self, d_model, d_head):
        return Head(d_model, d_head)

    def listed(self, heads):
        return nn.ModuleList(heads)

    def forward(self, x, memory, keep):
        return self.W_o(torch.cat([head(x, memory, keep) for head in self.heads], dim=-1))


class PlainList(ListOfHeads):
    def listed(self, heads):
        return heads


class DividedByModelSize(ListOfHeads):
    def head(self, d_model, d_head):
        return HeadOfModelSize(d_model, d_head)


class MaskWithFourAxes(ListOfHeads):
    def head(self, d_model, d_head):
        return HeadWithoutItsAxis(d_model, d_head)


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
        if keep is not None:
            scores = scores.masked_fill(~keep, -math.inf)
        return scores.softmax(dim=-1)

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


class OnlyXWithoutMask(Mine):
    def forward(self, x, memory, keep):
        return super().forward(x, x, torch.ones(1, 1, 1, x.shape[1], dtype=torch.bool))


class QueriesOfMemory(Mine):
    def forward(self, x, memory, keep):
        return super().forward(memory, memory, keep)[:, :x.shape[1]]


class Positions(nn.Module):
    def __init__(self, d_model, length):
        super().__init__()
        self.vectors = nn.Parameter(torch.zeros(length, d_model))

    def forward(self, x):
        return x + self.vectors[:x.shape[1]]


class ByEmbedding(nn.Module):
    def __init__(self, d_model, length):
        super().__init__()
        self.embedding = nn.Embedding(length, d_model)

    def forward(self, x):
        return x + self.embedding(torch.arange(x.shape[1]))


class WithBatchAxis(Positions):
    def __init__(self, d_model, length):
        super().__init__(d_model, length)
        self.vectors = nn.Parameter(torch.randn(1, length, d_model))

    def forward(self, x):
        return x + self.vectors[:, :x.shape[1]]


class PlainTensor(Positions):
    def __init__(self, d_model, length):
        nn.Module.__init__(self)
        self.vectors = torch.randn(length, d_model)


class ByExample(Positions):
    def forward(self, x):
        return x + self.vectors[:x.shape[0], None]


class OneForAll(Positions):
    def __init__(self, d_model, length):
        super().__init__(d_model, 1)

    def forward(self, x):
        return x + self.vectors


class LastRows(Positions):
    def forward(self, x):
        return x + self.vectors[-x.shape[1]:]


class Multiplied(Positions):
    def forward(self, x):
        return x * self.vectors[:x.shape[1]]


class Appended(Positions):
    def forward(self, x):
        return torch.cat([x, self.vectors[:x.shape[1]].expand_as(x)], dim=-1)


class OneNumberEach(Positions):
    def __init__(self, d_model, length):
        super().__init__(1, length)


class Detached(Positions):
    def forward(self, x):
        return x + self.vectors[:x.shape[1]].detach()


class InPlace(Positions):
    @torch.no_grad()
    def forward(self, x):
        return x.add_(self.vectors[:x.shape[1]])


RIGHT = {
    "list_of_heads": [ListOfHeads, Mine, LargeNegative],
    "positions": [Positions, ByEmbedding, WithBatchAxis]}

WRONG = {
    "list_of_heads": [
        (PlainList, "Use nn.ModuleList"),
        (DividedByModelSize, "scale by sqrt(d_model)"),
        (MaskWithFourAxes, "which axis of the mask is too many"),
        (TornSplit, "split without transpose"),
        (TornMerge, "merge without transpose"),
        (WholeWidth, "scale by sqrt(d_model)"),
        (NoScale, "no scale"),
        (Inverted, "mask inverted"),
        (OverQueries, "softmax over queries"),
        (NoMask, "mask ignored"),
        (OnlyX, "the keys and the values must come from memory"),
        (OnlyXWithoutMask, "the keys and the values must come from memory"),
        (QueriesOfMemory, "the queries must come from x"),
        (Mine(12, 3), "Hand over the class itself"),
        (lambda x, memory, keep: x, "Hand over the class itself")],
    "positions": [
        (PlainTensor, "training can change nothing"),
        (ByExample, "Two examples get different vectors"),
        (OneForAll, "Positions 0 and 1 get the same vector"),
        (LastRows, "With 5 tokens, position 0 does not get the vector"),
        (Multiplied, "depends on the token vectors"),
        (Appended, "it returns (2, 20, 24)"),
        (OneNumberEach, "has 20 parameters; expected 20 vectors of 12"),
        (Detached, "is something detached?"),
        (InPlace, "It changes x itself"),
        (Positions(12, 20), "Hand over the class itself")]}
