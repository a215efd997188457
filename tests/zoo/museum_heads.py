"""Real, published bugs of splitting and merging heads, rebuilt: each has a link to its story."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from utils import frameworks
from utils.parity import weights as layouts
from zoo.layer_masks import four_axes
from zoo.specimen import specimen

tf = frameworks.tensorflow()


def projected(x, memory, weights):
    return [side @ weights[f"W_{n}"] + weights[f"b_{n}"]
            for side, n in ((x, "q"), (memory, "k"), (memory, "v"))]


def attend(q, k, v, mask=None):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -9e15)
    return torch.matmul(F.softmax(scores, dim=-1), v)


@specimen("layer", "merge without transpose", module=True, fully_masked="average",
          packed="qkv_proj", roles={"o": "o_proj"},
          source="https://github.com/jsbaan/transformer-from-scratch/pull/6",
          note="values is (b, h, i, d) when it is reshaped to (b, i, e)",
          call=lambda module, x, memory, keep: module(x, memory, keep),
          fixed=("values = values.reshape", "values = values.permute(0, 2, 1, 3).reshape"))
class CopyTaskTransformer(nn.Module):
    """Project once, attend, put the heads together; the copy task is learned."""

    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        self.hidden_dim, self.num_heads = hidden_dim, num_heads
        self.qkv_proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.o_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, memory, mask=None):
        batch_size, sequence_length, _ = x.size()
        W, b = self.qkv_proj.weight.chunk(3), self.qkv_proj.bias.chunk(3)
        q, k, v = (F.linear(side, W[n], b[n]).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
                   for n, side in enumerate((x, memory, memory)))
        values = attend(q, k, v, mask)
        values = values.reshape(batch_size, sequence_length, self.hidden_dim)
        return self.o_proj(values)


@specimen("layer", "split and merge without transpose", masks="none",
          source="https://github.com/reczoo/FuxiCTR/issues/30",
          note="view straight to (b * h, i, d), and straight back",
          fixed=(("(t.view(batch_size * num_heads, -1, dim)",
                   "(t.view(batch_size, -1, num_heads, dim)"
                   ".transpose(1, 2).reshape(batch_size * num_heads, -1, dim)"),
                  ("output = output.view(batch_size, -1, num_heads * dim)",
                   "output = output.view(batch_size, num_heads, -1, dim).transpose(1, 2)"
                   ".flatten(2)")))
def straight_to_the_fold(x, memory, weights, num_heads, keep):
    """Fold the heads into the batch and unfold them."""
    batch_size, dim = x.size(0), weights["W_q"].size(1) // num_heads
    query, key, value = (t.view(batch_size * num_heads, -1, dim)
                         for t in projected(x, memory, weights))
    output = attend(query, key, value)
    output = output.view(batch_size, -1, num_heads * dim)
    return output @ weights["W_o"] + weights["b_o"]


@specimen("layer", "split without transpose", fully_masked="average",
          source="https://github.com/harvardnlp/annotated-transformer/issues/17",
          note="view(b, h, -1, d) of (b, i, e), as a reader proposed; the merge is right",
          fixed=("l.view(nbatches, h, -1, d_k)", "l.view(nbatches, -1, h, d_k).transpose(1, 2)"))
def as_a_reader_proposed(x, memory, weights, h, keep):
    """Put the head axis where the mask expects it."""
    nbatches, d_k = x.size(0), weights["W_q"].size(1) // h
    query, key, value = [l.view(nbatches, h, -1, d_k) for l in projected(x, memory, weights)]
    x = attend(query, key, value, keep).transpose(1, 2).contiguous().view(nbatches, -1, h * d_k)
    return x @ weights["W_o"] + weights["b_o"]


@specimen("layer", "the fold (b, h) is undone as (h, b)", listed=False, masks="none",
          source="https://github.com/gazelle93/Transformer-Various-Positional-Encoding/issues/1",
          note="rows are (b, h), and view(h, b, …) reads them as (h, b)",
          fixed=("out.view(num_heads, batch_size, -1, head_dim).permute(1, 2, 0, 3)",
                  "out.view(batch_size, num_heads, -1, head_dim).permute(0, 2, 1, 3)"))
def unfolded_the_other_way(x, memory, weights, num_heads, keep):
    """Fold with transpose and reshape, unfold with view and permute."""
    batch_size = x.size(0)
    q, k, v = (t.unflatten(2, (num_heads, -1)).transpose(1, 2).flatten(0, 1)
               for t in projected(x, memory, weights))
    out, head_dim = attend(q, k, v), q.size(-1)
    out = out.view(num_heads, batch_size, -1, head_dim).permute(1, 2, 0, 3)
    return out.reshape(batch_size, -1, num_heads * head_dim) @ weights["W_o"] + weights["b_o"]


@specimen("layer", "batch and sequence swapped", module=True, self_attention=True, masks="none",
          source="https://github.com/aipixel/AEMatter/issues/3",
          packed="in_proj_weight", roles={"o": "out_proj"},
          note="inputs are (b, i, e) and batch_first is False",
          call=lambda module, x, memory, keep: module(x, x, x)[0],
          reads=lambda module: layouts.from_in_proj(module.state_dict()),
          fixed=("Attention(d_model, num_heads)",
                  "Attention(d_model, num_heads, batch_first=True)"))
def windows_as_batches(d_model, num_heads):
    """One window is one example, (b, i, e)."""
    return nn.MultiheadAttention(d_model, num_heads)


@specimen("layer", "shared head", masks="none", source="https://github.com/BobMcDear/attorch/issues/14",
          note="the offset of a head, d, is divided by the length of a row, h * d: always 0",
          fixed=("[row:row + n, :d]", "[row:row + n, offset % stride:offset % stride + d]"))
def rows_from_strides(x, memory, weights, n_heads, keep):
    """Find the rows of each head by its offset in memory, as a kernel does."""
    q, k, v = (t.contiguous() for t in projected(x, memory, weights))
    d = q.size(2) // n_heads

    def head(t, b, h):
        n, stride = t.size(1), t.stride(1)
        offset = b * t.stride(0) + h * d
        row = offset // stride
        return t.view(-1, stride)[row:row + n, :d]
    context = torch.stack([
        torch.cat([attend(*(head(t, b, h) for t in (q, k, v))) for h in range(n_heads)], dim=1)
        for b in range(len(x))])
    return context @ weights["W_o"] + weights["b_o"]


@specimen("layer", "other example's mask", framework="tensorflow", fully_masked="average",
          source="https://github.com/lsdefine/attention-is-all-you-need-keras/issues/28",
          note="rows are (h, b) and the mask is repeated as (b, h)",
          fixed=("tf.repeat(keep, n_head, axis=0)", "tf.tile(keep, (n_head, 1, 1))"),
          masks="heads alike")
def heads_in_front_of_examples(x, memory, weights, n_head, keep):
    """Move the heads to the front, fold, and repeat the mask for every head."""
    def reshape1(side, name):
        side = tf.matmul(side, weights[f"W_{name}"]) + weights[f"b_{name}"]
        s = side.shape
        side = tf.transpose(tf.reshape(side, [s[0], s[1], n_head, -1]), [2, 0, 1, 3])
        return tf.reshape(side, [-1, s[1], s[2] // n_head])
    q, k, v = reshape1(x, "q"), reshape1(memory, "k"), reshape1(memory, "v")
    attn = tf.matmul(q, k, transpose_b=True) / q.shape[-1] ** 0.5
    if keep is not None:
        keep = tf.broadcast_to(four_axes(keep)[:, 0],
                               (x.shape[0], x.shape[1], memory.shape[1]))
        keep = tf.repeat(keep, n_head, axis=0)
        attn = tf.where(keep, attn, tf.cast(-1e10, attn.dtype))
    heads = tf.split(tf.matmul(tf.nn.softmax(attn), v), n_head)
    return tf.matmul(tf.concat(heads, axis=-1), weights["W_o"]) + weights["b_o"]
