"""Attempts at the exercises on error messages."""

import numpy as np
import torch
from einops import rearrange

RAISES = {"q @ k": True, "flat @ k.mT": False, "torch.einsum('bhid,bhid->bhi', q, k)": False,
          "scores.masked_fill(~each, 0)": False, "scores[~keep]": True,
          "torch.cat([k, q], dim=1)": False}


def by_rearrange(q):
    return rearrange(rearrange(q, "b h i d -> b i h d").contiguous(), "b i h d -> b h i d")


def by_stack(q):
    return torch.stack(list(q.unbind(1)), dim=2).transpose(1, 2)


def by_filling(q):
    b, h, i, d = q.shape
    new = torch.empty(b, i, h, d, dtype=q.dtype).transpose(1, 2)
    new[:] = q
    return new


RIGHT = {
    "goes_away": [lambda q: q.transpose(1, 2).contiguous().transpose(1, 2), by_rearrange, by_stack,
                  by_filling],
    "equal_sizes": [RAISES, {line: np.bool_(raises) for line, raises in RAISES.items()}]}

WRONG = {
    "goes_away": [
        (lambda q: q, "Its strides are still (60, 20, 4, 1)"),
        (lambda q: q.contiguous(), "Which order does merge_heads need"),
        (lambda q: q.transpose(1, 2).contiguous(), "It returns (2, 5, 3, 4) for (2, 3"),
        (lambda q: q.reshape(2, 5, 3, 4).transpose(1, 2), "no longer at their index"),
        (lambda q: q.numpy(), "It returns ndarray, not a tensor"),
        (lambda q: q.transpose(1, 2).view(2, 5, 12), "It raises RuntimeError")],
    "equal_sizes": [
        (RAISES | {"q @ k": False}, "Which axes does this product bring together"),
        (RAISES | {"scores[~keep]": False}, "Does indexing broadcast"),
        (RAISES | {"flat @ k.mT": True}, "flat @ k.mT: True is not correct. Which two sizes"),
        (RAISES | {"torch.cat([k, q], dim=1)": "no"}, "Answer True or False"),
        (RAISES | {"q @ k": None}, "Still open: q @ k"),
        ([True] * 6, "The answer must be a dict")]}
