"""Attempts at the exercises on sequence first."""

import numpy as np
import torch
from torch import nn

from utils.attention.sequence_first import MultiHeadAttention

IDLE = {"nothing": "key", "moved": "value", "fails": 5}
AXIS = {"misses": "inverted"}


class DistanceTable(MultiHeadAttention):
    def __init__(self, *args, reach=8, **kwargs):
        super().__init__(*args, **kwargs)
        self.reach = reach
        self.table = nn.Parameter(torch.zeros(2 * reach + 1, self.heads))

    def rows(self, query, key):
        offset = torch.arange(len(key)) - torch.arange(len(query))[:, None]
        return offset.clamp(-self.reach, self.reach) + self.reach

    def get_scores(self, query, key):
        scores = super().get_scores(query, key)
        return scores + self.table[self.rows(query, key)][:, :, None] / self.scale


class PositionByPosition(DistanceTable):
    def get_scores(self, query, key):
        scores = torch.einsum("ibhd,jbhd->bhij", query * self.scale, key)
        where = self.rows(query, key)
        for i, j in np.ndindex(where.shape):
            scores[:, :, i, j] = scores[:, :, i, j] + self.table[where[i, j]]
        return scores.permute(2, 3, 0, 1) / self.scale


def variant(change):
    """Return the class with (scores, table, rows, scale) -> scores in get_scores."""
    class Variant(DistanceTable):
        def get_scores(self, query, key):
            scores = MultiHeadAttention.get_scores(self, query, key)
            return change(scores, self.table, self.rows(query, key), self.scale)
    return Variant


class Inverted(DistanceTable):
    def rows(self, query, key):
        return 2 * self.reach - super().rows(query, key)


class InvertedAndUnscaled(Inverted):
    def get_scores(self, query, key):
        return (MultiHeadAttention.get_scores(self, query, key)
                + self.table[self.rows(query, key)][:, :, None])


class Unclamped(DistanceTable):
    def rows(self, query, key):
        return torch.arange(len(key)) - torch.arange(len(query))[:, None] + self.reach


class Wrapped(Unclamped):
    def rows(self, query, key):
        return super().rows(query, key) % (2 * self.reach + 1)


class Signless(DistanceTable):
    def rows(self, query, key):
        return (super().rows(query, key) - self.reach).abs() + self.reach


class FreeAtZero(DistanceTable):
    def get_scores(self, query, key):
        zero = torch.eye(len(query), dtype=torch.float64)[:, :, None, None]
        scores = MultiHeadAttention.get_scores(self, query, key)
        return scores + (1 - zero) * self.table[self.rows(query, key)][:, :, None] / self.scale


class FreeBeyond(DistanceTable):
    def get_scores(self, query, key):
        offset = torch.arange(len(key)) - torch.arange(len(query))[:, None]
        cost = self.table[self.rows(query, key)] * (abs(offset) <= self.reach)[:, :, None]
        return MultiHeadAttention.get_scores(self, query, key) + cost[:, :, None] / self.scale


class Buffered(DistanceTable):
    def __init__(self, *args, reach=8, **kwargs):
        super().__init__(*args, reach=reach, **kwargs)
        del self.table
        self.table = torch.zeros(2 * reach + 1, self.heads)


class OpenScores(DistanceTable):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def get_scores(self, query, key):
        ...


class HeadsFirst(DistanceTable):
    def __init__(self, *args, reach=8, **kwargs):
        super().__init__(*args, reach=reach, **kwargs)
        self.table = nn.Parameter(torch.zeros(self.heads, 2 * reach + 1))


def random_sides(n_q=5, n_k=7, batch=2, heads=3):
    return [torch.randn(n, batch, heads, 4, dtype=torch.float64) for n in (n_q, n_k)]


def one_value(program, sizes=(5, 7, 2, 3), **how):
    query, key = random_sides(*sizes)
    one = torch.randn(sizes[2], sizes[3], 4, dtype=torch.float64)
    out = program(query, key, one.expand(sizes[1], -1, -1, -1))
    return torch.allclose(out, one.expand(sizes[0], -1, -1, -1), **how)


def all_ones(program):
    query, key = random_sides()
    return np.allclose(program(query.numpy(), key.numpy(), np.ones(key.shape)), 1)


def exactly(program):
    query, key = random_sides()
    return (program(query, key, torch.ones_like(key)) == 1).all()


def shape_only(program):
    query, key = random_sides()
    return program(query, key, key).shape == query.shape


def square(program):
    zero = torch.zeros(5, 5, 3, 4)
    return torch.allclose(program(zero, zero, torch.ones(5, 5, 3, 4)), torch.ones(5, 5, 3, 4))


def with_reference(program):
    query, key = random_sides()
    scores = torch.einsum("ibhd,jbhd->ijbh", query, key) / 2
    return torch.allclose(program(query, key, key),
                          torch.einsum("ijbh,jbhd->ibhd", scores.softmax(1), key))


RIGHT = {
    "table_of_distances": [DistanceTable, PositionByPosition],
    "idle_biases": [IDLE | {"receive": lambda moved, other, W: other + W @ moved},
                    IDLE | {"receive": lambda moved, other, W: (moved @ W.T + other).numpy()}],
    "axis": [AXIS | {"probe": one_value}, {"probe": all_ones, "misses": "Off by one"}]}

WRONG = {
    "table_of_distances": [
        (variant(lambda scores, table, rows, scale: scores + table[rows][:, :, None]),
         "only 1/√d_k of the table"),
        (variant(lambda scores, table, rows, scale: scores + scale * table[rows][:, :, None]),
         "forward does so again"),
        (variant(lambda scores, table, rows, scale: scores - table[rows][:, :, None] / scale),
         "added, not subtracted"),
        (variant(lambda scores, table, rows, scale: 0 * scores + table[rows][:, :, None] / scale),
         "only the table has an effect"),
        (variant(lambda scores, table, rows, scale: scores
                          + table.detach()[rows][:, :, None] / scale), "gets no gradient"),
        (variant(lambda scores, table, rows, scale: scores + table[rows] / scale),
         "raises RuntimeError, at"),
        (variant(lambda scores, table, rows, scale: scores), "makes no difference"),
        (Inverted, "ALiBi would not catch that"),
        (InvertedAndUnscaled, "that. And forward multiplies"),
        (Unclamped, "raises IndexError"),
        (Wrapped, "start again at the other end"),
        (Signless, "j − i has a sign"),
        (FreeAtZero, "distance 0 to itself"),
        (FreeBeyond, "yours adds nothing there"),
        (Buffered, "`table` is not an nn.Parameter"),
        (HeadsFirst, "must be (7, 3), not (3, 7)"),
        (OpenScores, "Still open: get_scores"),
        (DistanceTable(3, 12), "the class itself")],
    "idle_biases": [
        (IDLE | {"nothing": "query", "receive": None}, "b · k differs from key to key"),
        (IDLE | {"moved": "output", "receive": lambda moved, other, W: other + W @ moved},
         "inverse of a matrix"),
        (IDLE | {"fails": 0, "receive": None}, "the weights of a fully masked row"),
        (IDLE | {"receive": None}, "Still open: receive"),
        (IDLE | {"receive": lambda moved, other, W: other + moved}, "there is a matrix between"),
        (IDLE | {"receive": lambda moved, other, W: other + moved @ W},
         "multiply by its transpose"),
        (IDLE | {"receive": lambda moved, other, W: other - W @ moved}, "this subtracts it"),
        (IDLE | {"receive": lambda moved, other, W: W @ moved}, "a bias of its own"),
        (IDLE | {"receive": lambda moved, other, W: (moved, other)}, "must return one bias"),
        (IDLE | {"receive": lambda moved, other, W: other + W @ moved[1:]}, "raises RuntimeError"),
        (IDLE, "with the keys")],
    "axis": [
        (AXIS | {"probe": shape_only}, "a softmax over the queries, a softmax over the"),
        (AXIS | {"probe": exactly}, "Does it allow for rounding"),
        (AXIS | {"probe": with_reference}, "does every average of values"),
        (AXIS | {"probe": square}, "as many queries as keys"),
        (AXIS | {"probe": lambda program: True}, "never calls the program"),
        (AXIS | {"probe": lambda program: not one_value(program)}, "The probe is inverted"),
        (AXIS | {"probe": lambda program: print(end="", file=None) or program(*random_sides(), 1)},
         "raises"),
        ({"probe": one_value, "misses": "after softmax"}, "weights do not sum to 1"),
        ({"probe": one_value, "misses": None}, "Still open: misses"),
        ({"probe": one_value, "misses": "scale"}, "one of inverted, off by one"),
        (one_value, "with the keys")]}
