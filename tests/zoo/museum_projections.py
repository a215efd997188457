"""Real, published bugs of the projections, rebuilt: each has a link to its story."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from utils import frameworks
from zoo.specimen import specimen

tf = frameworks.tensorflow()


def attend(q, k, v, mask=None):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -9e15)
    return torch.matmul(F.softmax(scores, dim=-1), v)


@specimen("layer", "packed order", self_attention=True, fully_masked="average",
          source="https://github.com/jsbaan/transformer-from-scratch/issues/1",
          note="the function returns q, k, v and the caller takes them as q, v, k; the same as k "
               "and v swapped",
          fixed=("q, v, k = project(x)", "q, k, v = project(x)"))
def returned_qkv_taken_as_qvk(x, memory, weights, num_heads, keep):
    """Let a small function make the three sides."""
    def project(x):
        packed = x @ torch.cat([weights[f"W_{n}"] for n in "qkv"], dim=1)
        packed = packed + torch.cat([weights[f"b_{n}"] for n in "qkv"])
        heads = packed.reshape(*x.shape[:2], 3, num_heads, -1).permute(2, 0, 3, 1, 4)
        return heads.unbind()
    q, v, k = project(x)
    out = attend(q, k, v, keep).transpose(1, 2).flatten(2)
    return out @ weights["W_o"] + weights["b_o"]


@specimen("layer", "transposed weight", equal_widths=True, fully_masked="average",
          source="https://github.com/rasbt/LLMs-from-scratch/issues/857",
          note="the parameters are (out, in), and the einsum contracts their first axis",
          fixed=("bnd,di->bni", "bnd,id->bni"))
def einsum_of_square_weights(x, memory, weights, num_heads, keep):
    """Keep the weights as nn.Linear does, (out, in), and project by einsum."""
    W = {n: weights[f"W_{n}"].T for n in "qkv"}
    q, k, v = (torch.einsum("bnd,di->bni", side, W[n]) + weights[f"b_{n}"]
               for side, n in ((x, "q"), (memory, "k"), (memory, "v")))
    q, k, v = (t.view(*t.shape[:2], num_heads, -1).transpose(1, 2) for t in (q, k, v))
    context = attend(q, k, v, keep).transpose(1, 2).reshape(*x.shape[:2], -1)
    return context @ weights["W_o"] + weights["b_o"]


@specimen("layer", "interleaved packing", self_attention=True, fully_masked="average",
          source="https://uvadlc-notebooks.readthedocs.io/en/latest/tutorial_notebooks/"
                 "tutorial6/Transformers_and_MHAttention.html",
          note="weights packed as [q | k | v] in a program whose layout is (h, 3, d)",
          fixed=("qkv.reshape(*x.shape[:2], num_heads, -1)",
                  "qkv.unflatten(2, (3, num_heads, -1)).transpose(2, 3).flatten(3)"))
def three_sides_per_head(x, memory, weights, num_heads, keep):
    """Load packed weights and cut each head into its three sides."""
    qkv = x @ torch.cat([weights[f"W_{n}"] for n in "qkv"], dim=1)
    qkv = qkv + torch.cat([weights[f"b_{n}"] for n in "qkv"])
    qkv = qkv.reshape(*x.shape[:2], num_heads, -1).permute(0, 2, 1, 3)
    q, k, v = qkv.chunk(3, dim=-1)
    values = attend(q, k, v, keep).permute(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    return values @ weights["W_o"] + weights["b_o"]


@specimen("layer", "input split before projection", equal_widths=True, fully_masked="average",
          source="https://github.com/MarcoMeter/episodic-transformer-memory-ppo/pull/22",
          note="x is cut into heads, and each head meets its block of W only; theirs also shared "
               "one block among the heads",
          fixed=("side[..., own] @ W[own, own]", "side @ W[:, own]"))
def cut_then_project(x, memory, weights, heads, keep):
    """Each head is responsible for a part of the embedding."""
    d = x.shape[-1] // heads
    parts = [slice(h * d, (h + 1) * d) for h in range(heads)]

    def project(side, W, b):
        return torch.stack([side[..., own] @ W[own, own] + b[own] for own in parts], dim=1)
    q, k, v = (project(side, weights[f"W_{n}"], weights[f"b_{n}"])
               for side, n in ((x, "q"), (memory, "k"), (memory, "v")))
    out = attend(q, k, v, keep).transpose(1, 2).flatten(2)
    return out @ weights["W_o"] + weights["b_o"]


@specimen("layer", "missing W_o", framework="tensorflow", equal_widths=True,
          fully_masked="average", source="https://github.com/Kyubyong/transformer/issues/117",
          note="the heads are put side by side, and that is the end",
          fixed=("return outputs",
                  'return tf.matmul(outputs, weights["W_o"]) + weights["b_o"]'))
def nothing_after_concat(queries, keys, weights, num_heads, keep):
    """Split, attend, restore the shape."""
    split = [tf.stack(tf.split(tf.matmul(side, weights[f"W_{n}"]) + weights[f"b_{n}"],
                               num_heads, axis=2), axis=1)
             for side, n in ((queries, "q"), (keys, "k"), (keys, "v"))]
    outputs = tf.matmul(split[0], split[1], transpose_b=True) / split[1].shape[-1] ** 0.5
    if keep is not None:
        outputs = tf.where(keep, outputs, tf.cast(-2.0**32 + 1, outputs.dtype))
    outputs = tf.matmul(tf.nn.softmax(outputs), split[2])
    outputs = tf.concat(tf.unstack(outputs, axis=1), axis=2)
    return outputs


@specimen("layer", "values are projected by the keys' matrix", listed=False, module=True,
          fully_masked="average", source="https://github.com/yflyzhang/AnnotatedTransformer/issues/1",
          roles={"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"},
          note="k_proj(value), a copied line",
          call=lambda module, x, memory, keep: module(x, memory, memory, keep),
          fixed=("self.k_proj(value)", "self.v_proj(value)"))
class CopiedLine(nn.Module):
    """Three lines that differ in a letter."""

    def __init__(self, d_model, h):
        super().__init__()
        self.h = h
        self.q_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v_proj, self.out_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        n = query.size(0)
        query = self.q_proj(query).view(n, -1, self.h, query.size(2) // self.h).transpose(1, 2)
        key = self.k_proj(key).view(n, -1, self.h, key.size(2) // self.h).transpose(1, 2)
        value = self.k_proj(value).view(n, -1, self.h, value.size(2) // self.h).transpose(1, 2)
        x = attend(query, key, value, mask)
        return self.out_proj(x.transpose(1, 2).contiguous().flatten(2))
