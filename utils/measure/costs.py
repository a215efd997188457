"""What attention costs: operations, numbers held, numbers moved; by formula, and counted.

The formulas are taught in chapter `cost`. They are those of the program that makes its tables, for
one example of n words, two or more, of width d_model, in n_heads heads, two or more:

    q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    context = weights @ v
    out = merge_heads(context) @ W_o

*Tables* have a number for each pair of words, *rows* belong to one word.
"""

import math

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def flops(n, d_model):
    """Return {step: operations of its matrix products}, two for each multiply-and-add."""
    pairs = 2 * n * n * d_model
    return {"projections": 6 * n * d_model**2, "scores": pairs,
            "context": pairs, "output": 2 * n * d_model**2}


def held(n, d_model, n_heads):
    """Return the numbers held at the peak, {"rows": …, "tables": …}, with two heads or more.

    Rows are q, k, v, the context, its merged copy and the output; tables the scores and the weights
    of every head. x and the matrices, which were there before, do not count.
    """
    return {"rows": 6 * n * d_model, "tables": 2 * n_heads * n * n}


def traffic(n, d_model, n_heads):
    """Return {step: numbers it moves}, if each operation reads its inputs and writes its output.

    Scores are written, read to be scaled and written again; merging the heads copies the context.
    """
    row, table, square = n * d_model, n_heads * n * n, d_model**2
    return {"projections": 6 * row + 3 * square, "scores": 2 * row + 3 * table,
            "softmax": 2 * table, "context": 4 * row + table, "output": 2 * row + square}


def crossing(n, seconds):
    """Return the length at which b n² overtakes a n, where a n + b n² is what a program takes.

    n and seconds are (m,), m >= 2; a and b are fitted by least squares of relative errors. Returns
    infinity where b is not positive, 0 where a is not.
    """
    n, seconds = (np.asarray(side, dtype=float) for side in (n, seconds))
    terms = np.stack([n, n**2], axis=1) / seconds[:, None]
    a, b = np.linalg.lstsq(terms, np.ones(len(n)), rcond=None)[0]
    return float(max(a, 0) / b) if b > 0 else math.inf


class _Traffic(TorchDispatchMode):
    """Add up the bytes that operations read and write."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        inputs, outputs = _tensors((args, kwargs)), _tensors(out)
        if func._schema.is_mutable or not _views(outputs, inputs):
            self.bytes += sum(map(_size, inputs + outputs))
        return out


def moved(program):
    """Return the bytes that ``program()`` moves, an integer; of tensors on "meta", it would move.

    Each operation of PyTorch reads its inputs and writes its outputs, once; a view moves nothing,
    and what is written into counts as read, too.
    What an operation moves inside itself, and what a cache saves, is not seen.
    """
    with _Traffic() as seen:
        program()
    return seen.bytes


def new_pages(program):
    """Return how many pages of memory ``program()`` was the first to touch; not on Windows.

    The operating system hands memory out by pages, most often of 4096 bytes, each when it is first
    used, and fills it with zeros.
    """
    import resource  # POSIX only

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    before = faults()
    program()
    return faults() - before


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _views(outputs, inputs):
    """Return whether all that came out lies in the memory of what went in."""
    places = {x.untyped_storage()._cdata for x in inputs}
    return all(x.untyped_storage()._cdata in places for x in outputs)


def _size(x):
    """Return the bytes of a tensor, what it repeats along an expanded axis once."""
    sizes = [size for size, stride in zip(x.shape, x.stride(), strict=True) if stride]
    return torch.Size(sizes).numel() * x.element_size()
