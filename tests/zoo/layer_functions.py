"""Layers as plain functions of a weight set, as in notebooks, exercises and answers."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from zoo.layer_masks import of_all_heads
from zoo.specimen import specimen


def linear(x, weights, name):
    return x @ weights[f"W_{name}"] + weights[f"b_{name}"]


def softmax(scores):
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def split(x, n_heads):
    """(b, i, h * d) -> (b, h, i, d), NumPy or PyTorch."""
    return x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)


@specimen("layer", framework="numpy", fully_masked="average")
def one_head_after_the_other(x, memory, weights, n_heads, keep):
    """Loop over the examples and the heads, then put the heads side by side."""
    q, k = linear(x, weights, "q"), linear(memory, weights, "k")
    v = linear(memory, weights, "v")
    if keep is not None:
        keep = np.broadcast_to(keep, (len(x), n_heads, x.shape[1], memory.shape[1]))
    examples = []
    for b in range(len(x)):
        heads = []
        for h, (q_h, k_h, v_h) in enumerate(zip(
                *(np.split(side[b], n_heads, axis=-1) for side in (q, k, v)), strict=True)):
            scores = q_h @ k_h.T / np.sqrt(q_h.shape[-1])
            if keep is not None:
                scores[~keep[b, h]] = -1e9
            heads.append(softmax(scores) @ v_h)
        examples.append(np.hstack(heads))
    return linear(np.stack(examples), weights, "o")


@specimen("layer", framework="numpy")
def output_as_a_sum_over_heads(x, memory, weights, n_heads, keep):
    """Let each head write into the output by its own rows of W_o: nothing is concatenated."""
    d = weights["W_q"].shape[1] // n_heads
    keep = np.broadcast_to(True if keep is None else keep,
                            (len(x), n_heads, x.shape[1], memory.shape[1]))
    out = 0
    for h in range(n_heads):
        own = slice(h * d, (h + 1) * d)
        q = x @ weights["W_q"][:, own] + weights["b_q"][own]
        k = memory @ weights["W_k"][:, own] + weights["b_k"][own]
        v = memory @ weights["W_v"][:, own] + weights["b_v"][own]
        scores = np.einsum("bid,bjd->bij", q, k) / math.sqrt(d)
        exps = np.exp(scores - scores.max(axis=-1, keepdims=True)) * keep[:, h]
        total = exps.sum(axis=-1, keepdims=True)
        out = out + exps / np.where(total > 0, total, 1) @ v @ weights["W_o"][own]
    return out + weights["b_o"]


@specimen("layer")
def sdpa_by_hand(x, memory, weights, n_heads, keep):
    """Project, split, let PyTorch attend, merge, project."""
    q, k, v = (split(linear(side, weights, name), n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    return linear(context.transpose(1, 2).flatten(2), weights, "o")


@specimen("layer", fully_masked="average")
def einsum_all_the_way(x, memory, weights, n_heads, keep):
    """Give every weight an axis of heads and never reshape an activation."""
    W_q, W_k, W_v = (weights[f"W_{n}"].unflatten(1, (n_heads, -1)) for n in "qkv")
    b_q, b_k, b_v = (weights[f"b_{n}"].view(n_heads, 1, -1) for n in "qkv")
    q = torch.einsum("bie,ehd->bhid", x, W_q) + b_q
    k = torch.einsum("bje,ehd->bhjd", memory, W_k) + b_k
    v = torch.einsum("bje,ehd->bhjd", memory, W_v) + b_v
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    if keep is not None:
        scores = torch.where(keep, scores, torch.finfo(scores.dtype).min)
    W_o = weights["W_o"].unflatten(0, (n_heads, -1))
    return torch.einsum("bhij,bhjd,hdo->bio", scores.softmax(-1), v, W_o) + weights["b_o"]


@specimen("layer", framework="numpy", causal=True, self_attention=True, masks="none")
def gpt2_block(x, memory, weights, n_heads, keep):
    """Pack the projections as GPT-2 does and hide the future with -1e10."""
    c_attn = {"w": np.hstack([weights[f"W_{n}"] for n in "qkv"]),
              "b": np.hstack([weights[f"b_{n}"] for n in "qkv"])}
    hidden = (1 - np.tri(x.shape[1])) * -1e10
    qkv = np.split(x @ c_attn["w"] + c_attn["b"], 3, axis=-1)
    heads = zip(*(np.split(part, n_heads, axis=-1) for part in qkv), strict=True)
    contexts = [softmax(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]) + hidden) @ v
                for q, k, v in heads]
    return linear(np.concatenate(contexts, axis=-1), weights, "o")


@specimen("layer", "shared head", framework="numpy", fully_masked="average",
          note="the functions read h when they are called, after the loop: all are the last head",
          fixed=("lambda:", "lambda h=h:"))
def list_of_functions(x, memory, weights, n_heads, keep):
    """Make one small function for each head, then call them all."""
    q, k, v = (split(linear(side, weights, name), n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    if keep is not None:
        scores = np.where(keep, scores, -1e9)
    heads = []
    for h in range(n_heads):
        heads.append(lambda: softmax(scores[:, h]) @ v[:, h])  # noqa: B023
    return linear(np.concatenate([head() for head in heads], axis=-1), weights, "o")


@specimen("layer", "missing bias", note="b_q, b_k and b_v are never added",
          fixed=('(side @ weights[f"W_{name}"], n_heads)',
                  '(linear(side, weights, name), n_heads)'))
def projections_without_bias(x, memory, weights, n_heads, keep):
    """Project with matrices only, as most models do today."""
    q, k, v = (split(side @ weights[f"W_{name}"], n_heads)
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    return linear(context.transpose(1, 2).flatten(2), weights, "o")


@specimen("layer", "padding leak", fully_masked="average",
          note="the rows of scores are (h, b), and only the first b of them, head 0, are masked",
          fixed=("scores[:batch] = scores[:batch].masked_fill(~keep, -1e9)",
                  "scores = scores.masked_fill(~keep.repeat(n_heads, 1, 1), -1e9)"),
          masks="heads alike")
def folded_heads_first(x, memory, weights, n_heads, keep):
    """Fold the heads into the batch with split and cat, as the older programs did."""
    batch = len(x)
    q, k, v = (torch.cat(linear(side, weights, name).chunk(n_heads, dim=-1))
               for side, name in ((x, "q"), (memory, "k"), (memory, "v")))  # (h * b, i, d)
    scores = torch.bmm(q, k.mT) / q.shape[-1] ** 0.5
    if keep is not None:
        keep = of_all_heads(keep).expand(batch, -1, -1)
        scores[:batch] = scores[:batch].masked_fill(~keep, -1e9)
    context = torch.bmm(scores.softmax(-1), v)
    return linear(torch.cat(context.split(batch), dim=-1), weights, "o")
