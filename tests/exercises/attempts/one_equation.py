"""Attempts at the exercises on eleven programs and one equation."""

import math

import numpy as np
import torch

from utils.attention.heads import merge_heads, split_heads
from utils.parity.ten import project, view

NINTH = {"batch": 3, "n_q": 11, "n_k": 9, "n_heads": 2, "d_head": 16}


def bmm(x, memory, W, n_heads, keep, fold=lambda keep, h: keep.expand(-1, h, -1, -1).flatten(0, 1),
        scale=math.sqrt, merge=merge_heads, change=lambda weights: weights):
    """Return out of folded attention; the options are for mistakes."""
    q, k, v = (split_heads(side, n_heads).flatten(0, 1) for side in project(x, memory, W))
    scores = torch.bmm(q, k.mT) / scale(q.shape[-1])
    weights = scores.masked_fill(~fold(keep, n_heads), -math.inf).softmax(dim=-1)
    context = torch.bmm(change(weights), v).unflatten(0, (-1, n_heads))
    return merge(context) @ W["W_o"] + W["b_o"]


def wrong(**how):
    return lambda *args: bmm(*args, **how)


def heads_outside(x, memory, W, n_heads, keep):
    """The same with (h b) folded, and the mask tiled to fit."""
    q, k, v = (torch.cat(side.chunk(n_heads, dim=-1)) for side in project(x, memory, W))
    drop = torch.zeros(keep.shape).to(x).masked_fill(~keep, -math.inf)[:, 0]
    weights = torch.baddbmm(drop.repeat(n_heads, 1, 1), q, k.mT,
                            alpha=q.shape[-1] ** -0.5).softmax(-1)
    out = torch.cat(weights.bmm(v).chunk(n_heads), dim=-1)
    return out @ W["W_o"] + W["b_o"]


def tiled(keep, n_heads):
    return keep[:, 0].repeat(n_heads, 1, 1)


def torn(context):
    return context.reshape(len(context), context.shape[2], -1)


RIGHT = {
    "twelfth": [bmm, heads_outside],
    "ninth_case": [NINTH, NINTH | {"causal": True, "n_q": np.int64(12)},
                   {name: float(size) for name, size in NINTH.items()},
                   NINTH | {"d_head": 1, "n_heads": 5, "self_attention": False}]}

WRONG = {
    "twelfth": [
        (wrong(fold=tiled), "The four cases with padding are wrong"),
        (wrong(merge=torn), "merge without transpose"),
        (wrong(scale=lambda d: 1), "no scale"),
        (wrong(change=torch.detach), "these gradients are wrong: x, memory, W_q"),
        (lambda *args: bmm(*args).detach(), "has no gradient"),
        (wrong(change=lambda weights: weights.half().to(weights)), "outputs 0.0002"),
        (lambda *args: view(*args), "it never calls torch.bmm"),
        (lambda *args: bmm(*args)[0], "out must be (2, 5, 12)"),
        (lambda x, memory, W, n_heads, keep: bmm(x, x, W, n_heads, keep), "raises")],
    "ninth_case": [
        ({"d_head": 5}, "Your case catches 1 of 5"),
        (NINTH | {"d_head": 5}, "a right one fails it, too: Keras"),
        (NINTH | {"d_head": 2}, "For which d_head does this rounding change nothing"),
        (NINTH | {"d_head": 4}, "multiplies all scores by 1/2"),
        (NINTH | {"n_heads": 3}, "three heads"),
        (NINTH | {"n_q": 5}, "the longer side for the keys"),
        (NINTH | {"n_k": 8}, "the first eight keys"),
        (NINTH | {"batch": 2}, "the mask of the second"),
        (NINTH | {"padding": False}, "the mask of the second"),
        (NINTH | {"n_q": 4000}, "n_q must be a whole number from 1 to 40"),
        ({"heads": 4}, "a dict of options of parity.case"),
        (NINTH | {"d_head": 4.5}, "d_head must be a whole number")]}
