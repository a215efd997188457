"""Compute and count what attention costs: operations, elements held, elements moved.

Chapter `cost` teaches the formulas. They are for the program below, which stores its attention
matrices, with one example of n >= 2 tokens of dimension d_model, and n_heads >= 2 heads:

    q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    context = weights @ v
    out = merge_heads(context) @ W_o

Attention matrices have an element for each pair of tokens, rows have d_model elements for each
token.
"""

import math

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def flops(n, d_model):
    """Return {step: operations}, two for each multiply-add of its products."""
    pairs = 2 * n * n * d_model
    return {"projections": 6 * n * d_model**2, "scores": pairs,
            "context": pairs, "output": 2 * n * d_model**2}


def held(n, d_model, n_heads):
    """Return the elements held at the peak, {"rows": …, "matrices": …}.

    The rows are q, k, v, the context, its merged copy and the output. The matrices are the scores
    and the attention weights of each head. x and the parameters existed before, and are not
    counted.
    """
    return {"rows": 6 * n * d_model, "matrices": 2 * n_heads * n * n}


def traffic(n, d_model, n_heads):
    """Return {step: elements moved}, read as inputs or written as outputs.

    The scores are written, read to be scaled, and written again; merging the heads copies the
    context.
    """
    row, matrix, square = n * d_model, n_heads * n * n, d_model**2
    return {"projections": 6 * row + 3 * square, "scores": 2 * row + 3 * matrix,
            "softmax": 2 * matrix, "context": 4 * row + matrix, "output": 2 * row + square}


def crossing(n, seconds):
    """Return the length n at which b n² exceeds a n, if a program takes a n + b n² seconds.

    n and seconds are (m,), m >= 2; a and b are fitted by least squares of relative errors. Returns
    infinity if b is not positive, 0 if a is not.
    """
    n, seconds = (np.asarray(side, dtype=float) for side in (n, seconds))
    terms = np.stack([n, n**2], axis=1) / seconds[:, None]
    a, b = np.linalg.lstsq(terms, np.ones(len(n)), rcond=None)[0]
    return float(max(a, 0) / b) if b > 0 else math.inf


class _Traffic(TorchDispatchMode):
    """Count the bytes that operations read and write."""

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
    """Return the bytes that ``program()`` moves, an integer, on the device "meta" as well.

    Each operation of PyTorch reads its inputs once and writes its outputs once. A view moves
    nothing, and a tensor that is written in place counts as read, too. Memory traffic inside an
    operation, and what a processor cache saves, is not counted.
    """
    with _Traffic() as seen:
        program()
    return seen.bytes


def new_pages(program):
    """Return the number of memory pages that ``program()`` uses first; not on Windows.

    The operating system provides memory in pages, usually of 4096 bytes. It fills a page with zeros
    when it is first used.
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
    """Return whether all outputs share the memory of the inputs."""
    storages = {x.untyped_storage()._cdata for x in inputs}
    return all(x.untyped_storage()._cdata in storages for x in outputs)


def _size(x):
    """Return the bytes of a tensor; elements repeated along an expanded axis count once."""
    sizes = [size for size, stride in zip(x.shape, x.stride(), strict=True) if stride]
    return torch.Size(sizes).numel() * x.element_size()
