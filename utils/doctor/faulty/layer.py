"""A multi-head layer in float64 NumPy with a switch for every fault; all off, it is the reference.

The switches of its kernel are those of ``faulty.kernel.attention``. ``utils.doctor.faults`` names
the faults.
"""

import numpy as np

from .. import faulty

EPSILON = 1e-5  # of the LayerNorm, as in PyTorch


def layer(x, memory, weights, n_heads, keep=None, *, norm=None, residual=False, post_norm=False,
          epsilon=EPSILON, swapped=False, unbiased="", transposed="", order="qkv", reading=None,
          input_split="", shared=None, torn="", merge=True, out="W_o b_o", mask_fault="", **kernel):
    """Return out (b, i, d_out); x is (b, i, d_in), memory (b, j, d_in), the rest as the reference.

    ``norm``: the axis of a LayerNorm that comes first, with ``epsilon`` added to the variance.
    ``residual``: x is added to the result. ``post_norm``: a LayerNorm comes last.
    ``swapped``: batch and sequence are exchanged. ``unbiased`` and ``transposed``: letters of q, k,
    v, o. ``order``: whose weights q, k and v use. ``reading``: see ``_read``. ``input_split``: the
    input is split instead of the projection; each head has its "own" block of W, all have the
    "first" block, or each has its columns of the first "rows". ``shared``: (head, letters), the
    head that all heads use for these letters, and for "mask" its mask, too; a "head" of
    ("repeat", 2) is the first two, used as 0 0 1 1, and with "tile" as 0 1 0 1. ``torn``: letters
    that are split without the transpose. ``merge``: False if the heads are merged without it.
    ``out``: which of W_o and b_o are used. ``mask_fault``: a name in MASK_FAULTS.
    """
    weights = _weights(weights, n_heads, unbiased, transposed, order, reading)
    given = x
    if norm is not None:
        x, memory = normalised(x, norm, epsilon), normalised(memory, norm, epsilon)
    if swapped:
        x, memory, keep = x.swapaxes(0, 1), memory.swapaxes(0, 1), None
    heads = []
    for letter, side in zip("qkv", (x, memory, memory), strict=True):
        projected = _project(side, weights[f"W_{letter}"], weights[f"b_{letter}"], n_heads,
                             input_split)
        head = _split(projected, n_heads, letter not in torn)
        if shared is not None and letter in shared[1]:
            head = head[:, _used(shared[0], n_heads)]
        heads.append(head)
    if keep is not None:
        keep = np.broadcast_to(keep, (*heads[0].shape[:3], heads[1].shape[2]))
        if shared is not None and "mask" in shared[1]:
            keep = keep[:, _used(shared[0], n_heads)]
        if mask_fault:
            keep = MASK_FAULTS[mask_fault](keep)
    context, _ = faulty.kernel.attention(*heads, keep, **kernel)
    context = _merge(context, merge)
    if "W_o" in out:
        context = _times(context, weights["W_o"])
    if "b_o" in out:
        context = context + weights["b_o"]
    if swapped:
        context = context.swapaxes(0, 1)
    if residual:
        context = given + context
    return normalised(context, -1, epsilon) if post_norm else context


def _weights(weights, n_heads, unbiased, transposed, order, reading):
    """Return the weight set as a program with these faults uses it."""
    mine = {name: np.asarray(w, dtype=float) for name, w in weights.items()}
    mine |= {f"b_{letter}": 0 * mine[f"b_{letter}"] for letter in unbiased}
    mine |= {f"W_{letter}": mine[f"W_{letter}"].T for letter in transposed}
    if reading is not None:
        mine |= _read(mine, n_heads, *reading)
    return mine | {f"{kind}_{role}": mine[f"{kind}_{letter}"]
                   for kind in "Wb" for role, letter in zip("qkv", order, strict=True)}


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


def _used(which, n_heads):
    """Return whose projection each head uses: that of one head, or of the first few."""
    if isinstance(which, int):
        return [which] * n_heads
    how, kv = which
    return [n * kv // n_heads if how == "repeat" else n % kv for n in range(n_heads)]


def _times(x, weight):
    """Return x W in one product for all examples: for large W, reading W takes the time."""
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], -1)


def _split(x, n_heads, transpose):
    if transpose:
        return x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)
    return x.reshape(len(x), n_heads, x.shape[1], -1)


def _merge(x, transpose):
    return (x.swapaxes(1, 2) if transpose else x).reshape(len(x), x.shape[2], -1)


def _only(axis, index, inside=True):
    """Return a function of keep (b, h, i, j) that masks only one head or example.

    ``inside`` False: all heads or examples but this one.
    """
    def change(keep):
        mine = (np.arange(keep.shape[axis]) == index % keep.shape[axis]) == inside
        return keep | ~np.expand_dims(mine, [n for n in range(4) if n != axis])
    return change


def _from_example(keep, examples):
    """Return keep (b, h, i, j) where head h of example b gets the mask of another example.

    ``examples(n, b, h)`` returns which one, for the index n in the folded axis b * h.
    """
    batch, n_heads = keep.shape[:2]
    index = np.arange(batch * n_heads).reshape(batch, n_heads)
    return keep[examples(index, batch, n_heads), np.arange(n_heads)]


def _shifted(step):
    """Return a function of keep (b, …) that gives each example the mask of one before or after."""
    return lambda keep: np.roll(keep, step, axis=0)


def _one_only():
    """Return {name: function of keep} for masks that one head or example gets, or does not get."""
    found = {}
    for axis, what in ((1, "head"), (0, "example")):
        for which, index in (("first", 0), ("last", -1)):
            found[f"in the {which} {what} only"] = _only(axis, index)
            found[f"not in the {which} {what}"] = _only(axis, index, inside=False)
    return found


MASK_FAULTS = {
    "on the queries": lambda keep: keep.swapaxes(-1, -2),
    **_one_only(),
    "tiled over folded heads": lambda keep: _from_example(keep, lambda n, b, h: n % b),
    "repeated over tiled heads": lambda keep: _from_example(
        keep, lambda n, b, h: (n % h * b + n // h) // h),
    "of the first example": lambda keep: np.broadcast_to(keep[:1], keep.shape),
    "of the last example": lambda keep: np.broadcast_to(keep[-1:], keep.shape),
    "of the example before": _shifted(1), "of the example after": _shifted(-1),
}
