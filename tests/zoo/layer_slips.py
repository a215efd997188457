"""Layers as plain functions, with slips that have no name of their own."""

import math

import torch
import torch.nn.functional as F

from zoo.specimen import specimen


def linear(x, weights, name):
    return x @ weights[f"W_{name}"] + weights[f"b_{name}"]


def split(x, n_heads):
    """(b, i, h * d) -> (b, h, i, d), NumPy or PyTorch."""
    return x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)


def attend(q, k, v, keep):
    """Return the context of tensors (b, h, i, d); a fully masked row gets zeros."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    return scores.softmax(dim=-1).nan_to_num() @ v


@specimen("layer", "the output's bias is added once for every head", listed=False,
          note="b_o stands inside the loop",
          fixed=(('out + weights["b_o"]', "out"), ("return out", 'return out + weights["b_o"]')))
def every_head_with_its_bias(x, memory, weights, n_heads, keep):
    """Let each head write into the output by its own rows of W_o."""
    q, k, v = (split(linear(side, weights, name), n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    context, out = attend(q, k, v, keep), 0
    for h, rows in enumerate(weights["W_o"].chunk(n_heads)):
        out = out + weights["b_o"] + context[:, h] @ rows
    return out


@specimen("layer", "the heads' outputs are averaged, not summed", listed=False,
          note="each head has its rows of W_o, and mean divides by the number of heads",
          fixed=("mean(axis=1)", "sum(axis=1)"))
def mean_of_the_heads(x, memory, weights, n_heads, keep):
    """Project each head's context by its own rows of W_o and combine them."""
    q, k, v = (split(linear(side, weights, name), n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    rows = weights["W_o"].unflatten(0, (n_heads, -1))
    return (attend(q, k, v, keep) @ rows).mean(axis=1) + weights["b_o"]


@specimen("layer", "the heads' attention weights are averaged before they meet the values",
          listed=False, note="mean over the heads, made for a plot, is used for the output as well",
          fully_masked="average", fixed=("average @ v", "attention @ v"))
def weights_for_the_plot(x, memory, weights, n_heads, keep):
    """Keep one map of attention for the figure."""
    q, k, v = (split(linear(side, weights, name), n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if keep is not None:
        scores = scores.masked_fill(~keep, -1e9)
    attention = scores.softmax(dim=-1)
    average = attention.mean(dim=1, keepdim=True)
    context = average @ v
    return linear(context.transpose(1, 2).flatten(2), weights, "o")


@specimen("layer", "queries are brought to length 1 before they are compared", listed=False,
          note="F.normalize(q) before the scaled dot product",
          fixed=("F.normalize(q, dim=-1)", "q"))
def normalised_queries(x, memory, weights, n_heads, keep):
    """Normalise the queries, for stable training."""
    q, k, v = (split(linear(side, weights, name), n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    context = attend(F.normalize(q, dim=-1), k, v, keep)
    return linear(context.transpose(1, 2).flatten(2), weights, "o")


@specimen("layer", "sines of the position are added to the input inside the layer", listed=False,
          note="with_positions changes x and memory before the projections",
          fixed=("x, memory = with_positions(x), with_positions(memory)", "pass"))
def layer_with_positions(x, memory, weights, n_heads, keep):
    """Attention knows no order, so tell it."""
    x, memory = with_positions(x), with_positions(memory)
    q, k, v = (split(linear(side, weights, name), n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    return linear(attend(q, k, v, keep).transpose(1, 2).flatten(2), weights, "o")


def with_positions(x):
    angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] / 10000 ** (
        torch.arange(x.shape[2], dtype=x.dtype) // 2 * 2 / x.shape[2])
    even = torch.arange(x.shape[2]) % 2 == 0
    return x + torch.where(even, angles.sin(), angles.cos())


@specimen("layer", "keys are projected twice", listed=False, equal_widths=True,
          note="memory holds the projected keys when they are projected again; values are right",
          fixed=('linear(keys, weights, "k")', "keys"))
def keys_projected_twice(x, memory, weights, n_heads, keep):
    """Project once for the cache, and once more where the layer does it by itself."""
    keys = linear(memory, weights, "k")
    k = split(linear(keys, weights, "k"), n_heads)
    q = split(linear(x, weights, "q"), n_heads)
    v = split(linear(memory, weights, "v"), n_heads)
    return linear(attend(q, k, v, keep).transpose(1, 2).flatten(2), weights, "o")


@specimen("layer", "the heads come before W_o in reverse order", listed=False,
          note="each new context is put in front of those before it",
          fixed=("[head, context]", "[context, head]"))
def context_that_grows(x, memory, weights, n_heads, keep):
    """Collect the heads in one tensor that grows."""
    q, k, v = (split(linear(side, weights, name), n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    context = x.new_empty(*x.shape[:2], 0)
    for head in attend(q, k, v, keep).unbind(1):
        context = torch.cat([head, context], dim=-1)
    return linear(context, weights, "o")
