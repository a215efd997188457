"""Attempts at the exercises on view and transpose."""

import numpy as np
import torch
from torch import nn

TABLE = {"line_1": [1, 1], "line_2": [1, 0], "line_3": [1, 0], "line_4": [1, 1], "line_5": [0, 0]}


class Layer(nn.Module):
    """A layer for two sequences; subclasses make one mistake each."""

    def __init__(self, d_in, n_heads, d_head, bias=True):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_head
        self.W_q = nn.Linear(d_in, n_heads * d_head, bias)
        self.W_k = nn.Linear(d_in, n_heads * d_head, bias)
        self.W_v = nn.Linear(d_in, n_heads * d_head, bias)
        self.W_o = nn.Linear(n_heads * d_head, d_in, bias)

    def divisor(self):
        return self.d_head ** 0.5

    def masked(self, scores, keep):
        return scores if keep is None else scores.masked_fill(~keep, -torch.inf)

    def heads(self, side):
        return side.view(*side.shape[:2], self.n_heads, self.d_head).transpose(1, 2)

    def merged(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, x, source, keep=None):
        q = self.heads(self.W_q(x))
        k = self.heads(self.W_k(source))
        v = self.heads(self.W_v(source))
        scores = q @ k.transpose(-2, -1) / self.divisor()
        return self.W_o(self.merged(self.masked(scores, keep).softmax(dim=-1) @ v))


class WithoutBiases(Layer):
    def __init__(self, d_in, n_heads, d_head):
        super().__init__(d_in, n_heads, d_head, bias=False)


class WithSDPA(Layer):
    def forward(self, x, source, keep=None):
        q = self.heads(self.W_q(x))
        k = self.heads(self.W_k(source))
        v = self.heads(self.W_v(source))
        context = nn.functional.scaled_dot_product_attention(q, k, v, keep)
        return self.W_o(context.transpose(1, 2).flatten(2))


class TornSplit(Layer):
    def heads(self, side):
        return side.view(side.shape[0], self.n_heads, side.shape[1], self.d_head)


class TornMerge(Layer):
    def merged(self, context):
        return context.reshape(context.shape[0], context.shape[2], -1)


class TornTwice(TornSplit):
    def merged(self, context):
        return context.reshape(context.shape[0], context.shape[2], -1)


class KeysFromX(Layer):
    def forward(self, x, source, keep=None):
        return super().forward(x, x, keep)


class Unscaled(Layer):
    def divisor(self):
        return 1


class ByInput(Layer):
    def divisor(self):
        return self.W_q.in_features ** 0.5


class ByAllHeads(Layer):
    def divisor(self):
        return self.W_q.out_features ** 0.5


class MaskIgnored(Layer):
    def masked(self, scores, keep):
        return scores


class Inverted(Layer):
    def masked(self, scores, keep):
        return scores if keep is None else scores.masked_fill(keep, -torch.inf)


class QueriesSummed(Layer):
    def masked(self, scores, keep):
        return super().masked(scores, keep).softmax(dim=-2).log()


class Untransposed(Layer):
    def heads(self, side):
        return super().heads(side).transpose(1, 2)


class OneLength(Layer):
    def forward(self, x, source, keep=None):
        self.length = x.shape[1]
        return super().forward(x, source, keep)

    def heads(self, side):
        return side.view(side.shape[0], self.length, self.n_heads, self.d_head).transpose(1, 2)


class WithoutOutput(Layer):
    def __init__(self, d_in, n_heads, d_head):
        super().__init__(d_in, n_heads, d_head)
        del self.W_o


class WithoutHeadSize(Layer):
    def __init__(self, d_in, n_heads, d_head):
        super().__init__(d_in, n_heads, d_in // n_heads)


class NoReturn(Layer):
    def forward(self, x, source, keep=None):
        self.W_q(x)


class OtherShape(Layer):
    def forward(self, x, source, keep=None):
        return super().forward(x, source, keep)[0]


class NotFinished(Layer):
    def forward(self, x, source, keep=None):
        return self.W_x(x)


def alone(program):
    x = torch.randn(2, 5, 12)
    out = program(x)
    for token in range(5):
        changed = x.clone()
        changed[:, token] += 1
        others = torch.arange(5) != token
        if not torch.equal(program(changed)[:, others], out[:, others]):
            return False
    return True


def by_jacobian(program):
    slopes = torch.autograd.functional.jacobian(program, torch.randn(2, 5, 12).double())
    reach = slopes.abs().sum(dim=(0, 2, 3, 5))
    return bool((reach * (1 - torch.eye(5)) == 0).all())


def changing(token, others):
    def attempt(program):
        x = torch.randn(2, 5, 12)
        changed = x.clone()
        changed[:, token] += 1
        return torch.equal(program(changed)[:, others], program(x)[:, others])
    return attempt


NEIGHBOURS = {"scores": (2, 5, 3, 3), "shape": True, "row sums": True, "causality": True,
              "alone": alone}


RIGHT = {
    "one_liners": [TABLE, {name: np.array(row, bool) for name, row in TABLE.items()},
                   {name: "".join(map(str, row)) for name, row in TABLE.items()}],
    "two_sequences": [Layer, WithoutBiases, WithSDPA],
    "untransposed": [NEIGHBOURS, NEIGHBOURS | {"alone": by_jacobian, "scores": [2, 5, 3, 3]}]}

WRONG = {
    "one_liners": [
        (TABLE | {"line_2": [0, 1], "line_5": [1, 0]}, "7 of 10 marks are right"),
        (TABLE | {"line_2": [0, 0]}, "keep their order on the strip"),
        (TABLE | {"line_2": [1, 1]}, "From how many of the five tokens"),
        (TABLE | {"line_3": [1, 1]}, "Which four of the dimensions"),
        (TABLE | {"line_3": [0, 0], "line_4": [0, 1]},
         "causality of line_3, line_4 is wrong. Every row holds a single token"),
        (TABLE | {"line_4": [1, 0]}, "Compare it with the columns"),
        (TABLE | {"line_5": [1, 0]}, "It transposes *before* the view"),
        (TABLE | {"line_5": [0, 1]}, "in the first row of its head 0"),
        (TABLE | {"line_5": None}, "Still open: line_5"),
        (TABLE | {"line_5": [None, 0]}, "Still open: causality of line_5"),
        (TABLE | {"line_5": [1, 1, 1]}, "two marks; yours has 3"),
        (list(TABLE.values()), "a dict with the keys"),
        (TABLE | {"line_5": ["no", "no"]}, "neither 1 (it passes)"),
        (TABLE | {"line_5": 1}, "raises TypeError")],
    "two_sequences": [
        (TornSplit, "torn in the split"),
        (TornMerge, "torn in the merge"),
        (TornTwice, "The heads are torn twice"),
        (KeysFromX, "They should be made from source"),
        (Unscaled, "not divided by √d_head"),
        (ByInput, "You divide by √d_in"),
        (ByAllHeads, "the root of all heads' dimensions"),
        (MaskIgnored, "with one it ignores the mask"),
        (Inverted, "The mask is inverted"),
        (QueriesSummed, "right shape and other numbers"),
        (Untransposed, "is a transpose missing?"),
        (OneLength, "which length do you use for the keys and values"),
        (WithoutOutput, "no nn.Linear with the name W_o"),
        (WithoutHeadSize, "Yours leads from 11 to 9"),
        (NoReturn, "is a return missing"),
        (OtherShape, "It returns the shape (5, 11)"),
        (NotFinished, "raises AttributeError, at `return self.W_x(x)`"),
        (Layer(11, 3, 4), "without making a layer of it")],
    "untransposed": [
        (NEIGHBOURS | {"scores": (2, 3, 5, 5)}, "the shape with the transpose"),
        (NEIGHBOURS | {"scores": (2, 5, 3, 4)}, "the shape of `viewed`"),
        (NEIGHBOURS | {"shape": False}, "whatever is in it"),
        (NEIGHBOURS | {"row sums": False}, "for any scores"),
        (NEIGHBOURS | {"causality": False}, "Which other tokens"),
        (NEIGHBOURS | {"alone": lambda program: True}, "all tokens see each other"),
        (NEIGHBOURS | {"alone": lambda program: False}, "Is the changed token itself left out"),
        (NEIGHBOURS | {"alone": changing(4, slice(0, 4))}, "tokens see earlier ones"),
        (NEIGHBOURS | {"alone": changing(0, slice(1, 5))}, "tokens see later ones"),
        (NEIGHBOURS | {"alone": changing(2, slice(0, 2))}, "tokens see earlier ones"),
        (NEIGHBOURS | {"alone": lambda program: "yes"}, "return True or False"),
        (NEIGHBOURS | {"alone": lambda program: program(torch.zeros(2, 5, 11))},
         "alone: It raises"),
        (NEIGHBOURS | {"alone": None}, "Still open: alone")]}
