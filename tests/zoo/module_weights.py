"""Modules that hold their weights in other ways than in four nn.Linear with telling names."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from utils.parity import weights as layouts
from zoo.layer_masks import four_axes
from zoo.specimen import specimen


def attend(q, k, v, hidden):
    """Return the context of the heads side by side; hidden keys get a score of -1e9."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    scores = scores if hidden is None else scores.masked_fill(hidden, -1e9)
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)


def cut(features, n_heads):
    return features.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def read_parameters(module):
    """Return the weight set of W_q … W_o (in, out); biases that there are not are zeros."""
    held = {name: w.numpy() for name, w in module.state_dict().items()}
    return {f"b_{n}": np.zeros(len(held["W_q"])) for n in "qkvo"} | held


@specimen("layer", module=True, roles=None, reads=read_parameters, self_attention=True,
          fully_masked="average", call=lambda module, x, memory, keep: module(x, keep))
class BareMatrices(nn.Module):
    """Four square parameters and no biases, used as on paper: x @ W."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            self.register_parameter(name, nn.Parameter(torch.rand(d_model, d_model)))

    def forward(self, x, keep=None):
        q, k, v = (cut(x @ W, self.n_heads) for W in (self.W_q, self.W_k, self.W_v))
        return attend(q, k, v, None if keep is None else ~keep) @ self.W_o


class Affine(nn.Module):
    """x @ weight + bias, so that the weight is (in, out)."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_in, n_out) / n_in ** 0.5)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).unflatten(0, x.shape[:-1])


def read_affine(module):
    """Return the weight set of ``OwnAffine``: [q | k | v] and out, (in, out)."""
    held = module.state_dict()
    return layouts.from_gpt2(*({key: held[f"{part}.{name}"] for key, name in (
        ("w", "weight"), ("b", "bias"))} for part in ("inner", "outer")))


@specimen("layer", module=True, roles=None, reads=read_affine, causal=True, self_attention=True,
          masks="none", call=lambda module, x, memory, keep: module(x))
class OwnAffine(nn.Module):
    """Packed attention upon a linear layer of its own, whose weight lies the other way round."""

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.inner, self.outer = Affine(width, 3 * width), Affine(width, width)

    def forward(self, x):
        q, k, v = (cut(side, self.n_heads) for side in self.inner(x).tensor_split(3, dim=-1))
        future = torch.ones(x.shape[1], x.shape[1]).triu(1) > 0
        return self.outer(attend(q, k, v, future))


@specimen("layer", module=True, roles=None, fully_masked="average",
          reads=lambda module: layouts.from_linear(module.state_dict(),
                                                   ("query", "key", "value", "out")),
          call=lambda module, x, memory, keep: module(x, memory, keep))
class OneLayerTooMany(nn.Module):
    """A layer from an earlier version stands first, and nobody calls it."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.score = nn.Linear(d_model, d_model)
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.value, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x, memory, keep=None):
        q, k, v = (cut(part(side), self.n_heads) for part, side in (
            (self.query, x), (self.key, memory), (self.value, memory)))
        return self.out(attend(q, k, v, None if keep is None else ~keep))


def read_rows(module):
    """Return the weight set of W_q … W_o (out, in), with b_q … b_o."""
    return {name: w.numpy().T for name, w in module.state_dict().items()}


@specimen("layer", module=True, roles=None, reads=read_rows, fully_masked="average",
          call=lambda module, x, memory, keep: module(x, memory, keep))
class BareBiases(nn.Module):
    """F.linear on parameters of its own, biases among them, all random at the start."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for n in "qkvo":
            self.register_parameter(f"W_{n}", nn.Parameter(torch.randn(d_model, d_model)))
            self.register_parameter(f"b_{n}", nn.Parameter(torch.randn(d_model)))

    def forward(self, x, memory, keep=None):
        q, k, v = (cut(F.linear(side, W, b), self.n_heads) for side, W, b in (
            (x, self.W_q, self.b_q), (memory, self.W_k, self.b_k), (memory, self.W_v, self.b_v)))
        context = attend(q, k, v, None if keep is None else ~keep)
        return F.linear(context, self.W_o, self.b_o)


def read_convolutions(module):
    """Return the weight set of convolutions (out, in, 1)."""
    return layouts.from_linear({name: w.flatten(1) if w.ndim == 3 else w
                                for name, w in module.state_dict().items()},
                               ("conv_q", "conv_k", "conv_v", "conv_o"))


@specimen("layer", module=True, roles=None, reads=read_convolutions, self_attention=True,
          fully_masked="average", call=lambda module, x, memory, keep: module(x, keep))
class PointwiseConvolutions(nn.Module):
    """Speech: channels before time, projected by convolutions that are one step wide."""

    def __init__(self, channels, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for n in "qkvo":
            self.add_module(f"conv_{n}", nn.Conv1d(channels, channels, 1))

    def forward(self, x, keep=None):
        wave = x.mT
        q, k, v = (cut(conv(wave).mT, self.n_heads)
                   for conv in (self.conv_q, self.conv_k, self.conv_v))
        return self.conv_o(attend(q, k, v, None if keep is None else ~keep).mT).mT


def read_heads(module):
    """Return the weight set of a list of heads; where there is no proj, W_o doubles."""
    held, width = module.state_dict(), module.width
    held |= {f"{name}.weight": torch.cat([getattr(head, name).weight for head in module.heads])
             for name in ("query", "key", "value")}
    return layouts.from_linear({"proj.weight": 2 * torch.eye(width)} | held,
                               ("query", "key", "value", "proj"))


class SingleHead(nn.Module):
    """One causal head of its own."""

    def __init__(self, width, head_size):
        super().__init__()
        self.key, self.query, self.value = (
            nn.Linear(width, head_size, bias=False) for _ in range(3))

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1]).triu(1) > 0
        q, k, v = (part(x)[:, None] for part in (self.query, self.key, self.value))
        return attend(q, k, v, future)


@specimen("layer", "missing W_o", module=True, roles=None, reads=read_heads, causal=True,
          self_attention=True, masks="none", call=lambda module, x, memory, keep: module(x),
          note="torch.cat is the last line",
          fixed=(("self.heads = ", "self.proj = nn.Linear(width, width); self.heads = "),
                  ("return torch.cat([head(x) for head in self.heads], dim=-1)",
                   "return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))")))
class HeadsAlone(nn.Module):
    """A lecture's heads side by side, an hour before the projection comes."""

    def __init__(self, width, n_heads):
        super().__init__()
        self.width = width
        self.heads = nn.ModuleList(SingleHead(width, width // n_heads) for _ in range(n_heads))

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


def read_squares(module):
    """Return the weight set of ``SmallSquares``; what is a single head's is taken for all."""
    held, width = module.state_dict(), module.fc_out.weight.shape[1]
    for name in ("queries", "keys", "values"):
        times = width // len(held[f"{name}.weight"])
        held[f"{name}.weight"] = held[f"{name}.weight"].tile(times, times)
    return layouts.from_linear(held, ("queries", "keys", "values", "fc_out"))


@specimen("layer", "input split before projection", module=True, roles=None, reads=read_squares,
          fully_masked="average",
          source="https://github.com/aladdinpersson/Machine-Learning-Collection/issues/3",
          note="the tokens are split first, and one small square serves all heads",
          fixed=(("small = width // n_heads", "small = width"),
                  ("part(cut(side, self.n_heads))", "cut(part(side), self.n_heads)")),
          call=lambda module, x, memory, keep: module(x, memory, four_axes(keep)))
class SmallSquares(nn.Module):
    """Queries, keys and values are made by matrices as wide as one head."""

    def __init__(self, width, n_heads):
        super().__init__()
        small = width // n_heads
        self.n_heads = n_heads
        self.values, self.keys, self.queries = (
            nn.Linear(small, small, bias=False) for _ in range(3))
        self.fc_out = nn.Linear(width, width)

    def forward(self, x, memory, keep=None):
        q, k, v = (part(cut(side, self.n_heads)) for part, side in (
            (self.queries, x), (self.keys, memory), (self.values, memory)))
        return self.fc_out(attend(q, k, v, None if keep is None else keep == 0))


def read_depth_first(module):
    """Return the weight set of ``DepthFirst``, whose features are (d, h), as (h, d)."""
    held = module.state_dict()

    def turned(w):
        return w.unflatten(0, (-1, module.n_heads)).transpose(0, 1).flatten(0, 1)
    for n in range(3):
        held |= {f"proj.{n}.{part}": turned(held[f"proj.{n}.{part}"])
                 for part in ("weight", "bias")}
    held["merge.weight"] = turned(held["merge.weight"].T).T
    return layouts.from_linear(held, ("proj.0", "proj.1", "proj.2", "merge"))


@specimen("layer", module=True, roles=None, reads=read_depth_first, fully_masked="average",
          masks="padding", call=lambda module, x, memory, keep: module(
              x, memory, None if keep is None else ~keep[:, 0, 0]))
class DepthFirst(nn.Module):
    """The head is the last axis of q, k and v, as in some that match pictures, and of out, too."""

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.merge = nn.Linear(width, width)
        self.proj = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x, memory, drop=None):
        q, k, v = (part(side).unflatten(-1, (-1, self.n_heads)) for part, side in zip(
            self.proj, (x, memory, memory), strict=True))
        scores = torch.einsum("bidh,bjdh->bhij", q, k) * q.shape[2] ** -0.5
        if drop is not None:
            scores = scores.masked_fill(drop[:, None, None], -1e9)
        context = torch.einsum("bhij,bjdh->bidh", scores.softmax(dim=-1), v)
        return self.merge(context.flatten(2))
