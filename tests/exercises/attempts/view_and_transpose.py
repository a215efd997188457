"""Attempts at the exercises on view and transpose."""

import numpy as np
import torch

TABLE = {"a": [1, 1, 1, 1, 1], "b": [1, 1, 1, 1, 0], "c": [1, 1, 1, 1, 0],
         "d": [1, 1, 1, 1, 1], "e": [1, 1, 1, 0, 0]}


def tokens_first(context):
    return context.transpose(1, 2).contiguous().transpose(1, 2)


def through_numpy(context):
    return torch.as_tensor(np.moveaxis(np.moveaxis(context.numpy(), 1, 2).copy(), 2, 1))


def own_memory(context):
    b, h, i, d = context.shape
    memory = torch.empty(b, i, h, d, dtype=context.dtype)
    memory.transpose(1, 2).copy_(context)
    return memory.transpose(1, 2)


def dimensions_first(context):
    return context.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0)


MOVED = {"view": False, "transpose in": False, "transpose out": False, "reshape": True,
         "lay_out": tokens_first}


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
    "copies": [MOVED, MOVED | {"lay_out": through_numpy, "reshape": np.True_},
               MOVED | {"lay_out": own_memory}],
    "untransposed": [NEIGHBOURS, NEIGHBOURS | {"alone": by_jacobian, "scores": [2, 5, 3, 3]}]}

WRONG = {
    "one_liners": [
        (TABLE | {"b": [1, 0, 1, 0, 0], "e": [1, 0, 1, 0, 0]}, "22 of 25 marks are right"),
        (TABLE | {"b": [1, 0, 1, 1, 0], "e": [1, 0, 1, 0, 0]},
         "round trip of b, e is wrong. Its merge undoes"),
        (TABLE | {"b": [1, 1, 1, 0, 0]}, "keep their order in memory"),
        (TABLE | {"c": [1, 1, 1, 1, 1]}, "Which four of the dimensions"),
        (TABLE | {"c": [1, 1, 1, 0, 0]}, "Every row holds a single token"),
        (TABLE | {"d": [1, 1, 1, 1, 0]}, "Compare it with the columns"),
        (TABLE | {"e": [1, 1, 0, 1, 0]}, "It transposes *before* the view"),
        (TABLE | {"e": [0, 1, 1, 0, 0]}, "which numbers are in it"),
        (TABLE | {"e": None}, "Still open: e"),
        (TABLE | {"e": [1, 1, 1, None, 0]}, "Still open: causality of e"),
        (TABLE | {"e": [1, 1, 1]}, "five marks; yours has 3"),
        (list(TABLE.values()), "a dict with the keys"),
        (TABLE | {"e": ["yes", "yes", "yes", "no", "no"]}, "neither 1 (it passes)"),
        (TABLE | {"e": 1}, "raises TypeError")],
    "copies": [
        (MOVED | {"view": True}, "view: True is not correct. It splits an axis"),
        (MOVED | {"transpose out": True}, "exchanges two strides"),
        (MOVED | {"reshape": False}, "Remember that `view` raised"),
        (MOVED | {"lay_out": lambda context: context.transpose(1, 2).contiguous()},
         "The axes must stay as they are"),
        (MOVED | {"lay_out": lambda context: context.contiguous()},
         "still (60, 20, 4, 1)"),
        (MOVED | {"lay_out": dimensions_first}, "how large must the stride"),
        (MOVED | {"lay_out": lambda context: context.transpose(1, 2).reshape(context.shape)},
         "mixed them up"),
        (MOVED | {"lay_out": lambda context: context.numpy()}, "ndarray, not a tensor"),
        (MOVED | {"lay_out": lambda context: context.view(2, 15, 5)}, "lay_out: It raises Runtime"),
        (MOVED | {"lay_out": None}, "Still open: lay_out")],
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
