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
    "one_liners": [TABLE, {name: np.array(row, bool) for name, row in TABLE.items()},
                   {name: "".join(map(str, row)) for name, row in TABLE.items()}],
    "copies": [MOVED, MOVED | {"lay_out": through_numpy, "reshape": np.True_},
               MOVED | {"lay_out": own_memory}],
    "stripes": [NOTICES, NOTICES | {"translate": rows}]}

WRONG = {
    "one_liners": [
        (TABLE | {"b": [1, 0, 1, 0, 0], "e": [1, 0, 1, 0, 0]}, "22 of 25 marks are right"),
        (TABLE | {"b": [1, 0, 1, 1, 0], "e": [1, 0, 1, 0, 0]},
         "round trip of b, e is wrong. Its merge undoes"),
        (TABLE | {"b": [1, 1, 1, 0, 0]}, "keep their order in memory"),
        (TABLE | {"c": [1, 1, 1, 1, 1]}, "Which four of the dimensions"),
        (TABLE | {"c": [1, 1, 1, 0, 0]}, "Every row holds a single token"),
        (TABLE | {"d": [1, 1, 1, 1, 0]}, "Compare it with `by_hand`"),
        (TABLE | {"e": [1, 1, 0, 1, 0]}, "It transposes *before* the view"),
        (TABLE | {"e": [0, 1, 1, 0, 0]}, "which numbers are in it"),
        (TABLE | {"e": None}, "Still open: e"),
        (TABLE | {"e": [1, 1, 1, None, 0]}, "Still open: causality of e"),
        (TABLE | {"e": [1, 1, 1]}, "five marks; yours has 3"),
        (list(TABLE.values()), "a dict with the keys"),
        (TABLE | {"e": ["yes", "yes", "yes", "no", "no"]}, "neither 1 (it survives)"),
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
