"""A multi-head layer in float64 NumPy with a switch for every fault; all off, it is the reference.

``utils.doctor.faults`` names the faults.
"""

from dataclasses import dataclass

import numpy as np

from . import kernel

EPSILON = 1e-5  # of the LayerNorm, as in PyTorch


@dataclass(frozen=True)
class LayerFaults(kernel.Faults):
    """The switches of a layer and of the kernel inside. With the defaults, it is the reference."""

    norm: int | None = None         # the axis of a LayerNorm that comes first
    epsilon: float = EPSILON        # is added to its variance
    residual: bool = False          # x is added to the result
    post_norm: bool = False         # a LayerNorm comes last
    swapped: bool = False           # batch and sequence are exchanged
    sides: str = "xmm"              # of which input, x or memory, q, k and v are made
    unbiased: str = ""              # letters of q, k, v, o …
    transposed: str = ""            # … or those whose weights are used as x @ W.T
    order: str = "qkv"              # whose weights q, k and v use
    reading: tuple | None = None    # how packed weights are read: arguments of ``_read``
    # The input is split, not the projection: each head has its "own" block of W, all have the
    # "first" block, or each has its columns of the first "rows".
    input_split: str = ""
    relu: str = ""                  # letters of q, k, v behind whose projections a ReLU stands
    # (head, letters): the head that all heads use for these letters, and for "mask" its mask, too.
    # A head of ("repeat", 2) is the first two, used as 0 0 1 1, and with "tile" as 0 1 0 1.
    shared: tuple | None = None
    torn: str = ""                  # letters that are split without the transpose
    merge: bool | str = True        # False: without the transpose; "stacked": from (h, b, i, d)
    out: str = "W_o b_o"            # which of W_o and b_o are used
    mask_fault: str = ""            # a name in ``_misused``


def layer(x, memory, weights, n_heads, keep=None, **settings):
    """Return out (b, i, d_out) of a layer; ``settings`` are those of LayerFaults.

    x is (b, i, d_in) and memory (b, j, d_in); the rest is as for the reference.
    """
    faults = LayerFaults(**settings)
    weights, given = _weights(weights, n_heads, faults), x
    if faults.norm is not None:
        x, memory = (normalised(side, faults.norm, faults.epsilon) for side in (x, memory))
    if faults.swapped:
        x, memory, keep = x.swapaxes(0, 1), memory.swapaxes(0, 1), None
    q, k, v = _heads({"x": x, "m": memory}, weights, n_heads, faults)
    if keep is not None:
        keep = _shared(np.broadcast_to(keep, (*q.shape[:3], k.shape[2])), "mask", faults.shared)
        keep = _misused(keep, faults.mask_fault) if faults.mask_fault else keep
    context, _ = kernel.attention(q, k, v, keep, faults)
    axes = {True: (0, 2, 1, 3), False: (0, 1, 2, 3), "stacked": (1, 0, 2, 3)}[faults.merge]
    context = context.transpose(axes).reshape(len(context), context.shape[2], -1)
    if "W_o" in faults.out:
        context = _times(context, weights["W_o"])
    if "b_o" in faults.out:
        context = context + weights["b_o"]
    if faults.swapped:
        context = context.swapaxes(0, 1)
    if faults.residual:
        context = given + context
    return normalised(context, -1, faults.epsilon) if faults.post_norm else context


def _heads(inputs, weights, n_heads, faults):
    """Return q, k and v, (b, h, n, d); ``inputs``: x as "x" and memory as "m"."""
    found = []
    for letter, side in zip("qkv", faults.sides, strict=True):
        x = _project(inputs[side], weights[f"W_{letter}"], weights[f"b_{letter}"], n_heads,
                     faults.input_split)
        x = np.maximum(x, 0) if letter in faults.relu else x
        if letter in faults.torn:
            heads = x.reshape(len(x), n_heads, x.shape[1], -1)
        else:
            heads = x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)
        found.append(_shared(heads, letter, faults.shared))
    return found


def _shared(x, letter, shared):
    """Return x (b, h, …) as the heads use it: one head, or the first few, may serve for all."""
    if shared is None or letter not in shared[1]:
        return x
    which, n_heads = shared[0], x.shape[1]
    if isinstance(which, int):
        return x[:, [which] * n_heads]
    how, kv = which
    return x[:, [n * kv // n_heads if how == "repeat" else n % kv for n in range(n_heads)]]


def _weights(weights, n_heads, faults):
    """Return the weight set as a program with these faults uses it."""
    mine = {name: np.asarray(w, dtype=float) for name, w in weights.items()}
    mine |= {f"b_{letter}": 0 * mine[f"b_{letter}"] for letter in faults.unbiased}
    mine |= {f"W_{letter}": mine[f"W_{letter}"].T for letter in faults.transposed}
    if faults.reading is not None:
        mine |= _read(mine, n_heads, *faults.reading)
    return mine | {f"{kind}_{role}": mine[f"{kind}_{letter}"]
                   for kind in "Wb" for role, letter in zip("qkv", faults.order, strict=True)}


def _read(weights, n_heads, axes, back, letters="qkv"):
    """Return W_q … b_v packed as (3, h, d) and read in the order ``axes``; ``back``: vice versa.

    ``letters``: those that are packed, "qkv", or "kv" as (2, h, d). With an o, the rows of W_o are
    read in the same order as the dimensions of one of them.
    """
    width = weights["W_q"].shape[1]
    sides = letters.replace("o", "")
    sizes = (len(sides), n_heads, width // n_heads)
    index = np.arange(len(sides) * width)
    if back:
        index = index.reshape(sizes).transpose(axes)
    else:
        index = index.reshape([sizes[n] for n in axes]).transpose(np.argsort(axes))
    index = index.reshape(-1, width)
    found = {"W_o": weights["W_o"][index[0]]} if "o" in letters else {}
    for kind in "Wb":
        packed = np.concatenate([weights[f"{kind}_{letter}"] for letter in sides], axis=-1)
        found |= {f"{kind}_{letter}": packed[..., mine]
                  for letter, mine in zip(sides, index, strict=True)}
    return found


def normalised(x, axis, epsilon=EPSILON):
    """Return x with mean 0 and variance 1 along an axis, as a LayerNorm without gain and bias."""
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(axis=axis, keepdims=True) + epsilon)


def _project(x, weight, bias, n_heads, input_split):
    """Return x W + b; with ``input_split``, each head projects only its own dimensions of x."""
    if not input_split:
        return _times(x, weight) + bias
    width = x.shape[-1] // n_heads
    blocks = [slice(n * width, (n + 1) * width) for n in range(n_heads)]
    first = blocks[:1] * n_heads
    rows, columns = {"own": (blocks, blocks), "first": (first, first),
                     "rows": (first, blocks)}[input_split]
    return np.concatenate([x[..., mine] @ weight[row, column] + bias[column] for mine, row, column
                           in zip(blocks, rows, columns, strict=True)], axis=-1)


def _times(x, weight):
    """Return x W in one product for all examples: for large W, reading W takes the time."""
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], -1)


def _misused(keep, fault):
    """Return keep (b, h, i, j) as the wrong heads or examples use it."""
    if fault == "on the queries":
        return keep.swapaxes(-1, -2)
    n_b, n_h = keep.shape[:2]
    b, h = np.indices((n_b, n_h))
    masked = {
        "in the first head only": h == 0, "not in the first head": h > 0,
        "in the last head only": h == n_h - 1, "not in the last head": h < n_h - 1,
        "in the first example only": b == 0, "not in the first example": b > 0,
        "in the last example only": b == n_b - 1, "not in the last example": b < n_b - 1}
    if fault in masked:
        return keep | ~masked[fault][..., None, None]
    example = {
        "tiled over folded heads": (b * n_h + h) % n_b,
        "repeated over tiled heads": (h * n_b + b) // n_h,
        "of the first example": np.zeros_like(b), "of the last example": np.full_like(b, n_b - 1),
        "of the example before": (b - 1) % n_b, "of the example after": (b + 1) % n_b}
    return keep[example[fault], h]
