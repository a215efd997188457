"""One multi-head layer in float64 NumPy with a switch for every fault; none on, the reference.

The switches of its kernel are those of ``faulty.kernel.attention``. The names of the faults are in
``utils.doctor.faults``.
"""

import numpy as np

from utils.doctor import faulty

EPSILON = 1e-5  # of the LayerNorm, as in PyTorch


def layer(x, memory, weights, n_heads, keep=None, *, norm=None, epsilon=EPSILON, swapped=False,
          unbiased="", transposed="", order="qkv", reading=None, cut="", shared=None, torn="",
          merge=True, out="W_o b_o", masking="", **kernel):
    """Return out: (b, i, d_in), (b, j, d_in) -> (b, i, d_out); arguments as of the reference.

    ``norm``: the axis that a LayerNorm, which comes first, runs along, with ``epsilon`` added to
    the variance. ``swapped``: batch and sequence. ``unbiased`` and ``transposed``: letters of q, k,
    v, o. ``order``: whose weights q, k and v take; ``reading``: see ``_read``. ``cut``: the input,
    not the projection, is cut, and each head has its "own" square of W, the "first" one, or its
    columns of the first "rows".
    ``shared``: (head, letters), the head that all use, with "mask" its mask too. ``torn``: letters
    of what is split without transpose; ``merge``: with one. ``out``: what of W_o and b_o is used.
    ``masking``: a name in MASKINGS.
    """
    weights = _weights(weights, n_heads, unbiased, transposed, order, reading)
    if norm is not None:
        x, memory = _normalised(x, norm, epsilon), _normalised(memory, norm, epsilon)
    if swapped:
        x, memory, keep = x.swapaxes(0, 1), memory.swapaxes(0, 1), None
    heads = []
    for letter, side in zip("qkv", (x, memory, memory), strict=True):
        projected = _project(side, weights[f"W_{letter}"], weights[f"b_{letter}"], n_heads, cut)
        head = _split(projected, n_heads, letter not in torn)
        if shared is not None and letter in shared[1]:
            head = head[:, [shared[0]] * n_heads]
        heads.append(head)
    if keep is not None:
        keep = np.broadcast_to(keep, (*heads[0].shape[:3], heads[1].shape[2]))
        if shared is not None and "mask" in shared[1]:
            keep = keep[:, [shared[0]] * n_heads]
        keep = MASKINGS[masking](keep) if masking else keep
    context, _ = faulty.kernel.attention(*heads, keep, **kernel)
    context = _merge(context, merge)
    context = _times(context, weights["W_o"]) if "W_o" in out else context
    context = context + weights["b_o"] if "b_o" in out else context
    return context.swapaxes(0, 1) if swapped else context


def _weights(weights, n_heads, unbiased, transposed, order, reading):
    """Return the weight set as a program with these faults holds it."""
    mine = {name: np.asarray(w, dtype=float) for name, w in weights.items()}
    mine |= {f"b_{letter}": 0 * mine[f"b_{letter}"] for letter in unbiased}
    mine |= {f"W_{letter}": mine[f"W_{letter}"].T for letter in transposed}
    if reading is not None:
        mine |= _read(mine, n_heads, *reading)
    return mine | {f"{kind}_{role}": mine[f"{kind}_{letter}"]
                   for kind in "Wb" for role, letter in zip("qkv", order, strict=True)}


def _read(weights, n_heads, axes, back, letters="qkv"):
    """Return W_q … b_v packed as (3, h, d) and read in the order ``axes``; ``back``: vice versa.

    ``letters``: those that are packed, "qkv", or "kv" as (2, h, d); with an o, the rows of W_o as
    the features of one.
    """
    width = weights["W_q"].shape[1]
    sides = letters.replace("o", "")
    sizes = (len(sides), n_heads, width // n_heads)
    place = np.arange(len(sides) * width)
    if back:
        place = place.reshape(sizes).transpose(axes)
    else:
        place = place.reshape([sizes[n] for n in axes]).transpose(np.argsort(axes))
    place = place.reshape(-1, width)
    found = {"W_o": weights["W_o"][place[0]]} if "o" in letters else {}
    for kind in "Wb":
        packed = np.concatenate([weights[f"{kind}_{letter}"] for letter in sides], axis=-1)
        found |= {f"{kind}_{letter}": packed[..., mine]
                  for letter, mine in zip(sides, place, strict=True)}
    return found


def _normalised(x, axis, epsilon):
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(axis=axis, keepdims=True) + epsilon)


def _project(x, weight, bias, n_heads, cut):
    """Return x W + b, or with ``cut`` what each head makes of its own features of x."""
    if not cut:
        return _times(x, weight) + bias
    width = x.shape[-1] // n_heads
    blocks = [slice(n * width, (n + 1) * width) for n in range(n_heads)]
    first = blocks[:1] * n_heads
    rows, columns = {"own": (blocks, blocks), "first": (first, first), "rows": (first, blocks)}[cut]
    return np.concatenate([x[..., mine] @ weight[row, column] + bias[column] for mine, row, column
                           in zip(blocks, rows, columns, strict=True)], axis=-1)


def _times(x, weight):
    """Return x W, in one product for all examples: at large widths reading W takes the time."""
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], -1)


def _split(x, n_heads, transpose):
    if transpose:
        return x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)
    return x.reshape(len(x), n_heads, x.shape[1], -1)


def _merge(x, transpose):
    return (x.swapaxes(1, 2) if transpose else x).reshape(len(x), x.shape[2], -1)


def _only(axis, chosen, inside=True):
    """Return a function of keep (b, h, i, j) that leaves it to the chosen heads or examples."""
    def change(keep):
        mine = (np.arange(keep.shape[axis]) == chosen % keep.shape[axis]) == inside
        return keep | ~np.expand_dims(mine, [n for n in range(4) if n != axis])
    return change


def _fold(keep, examples):
    """Return keep (b, h, i, j) where head h of example b gets the mask of another example."""
    batch, n_heads = keep.shape[:2]
    place = np.arange(batch * n_heads).reshape(batch, n_heads)
    return keep[examples(place, batch, n_heads), np.arange(n_heads)]


def _turned(step):
    """Return a function of keep (b, …) that gives each example the mask of one before or after."""
    return lambda keep: np.roll(keep, step, axis=0)


MASKINGS = {
    "on the queries": lambda keep: keep.swapaxes(-1, -2),
    **{f"{how} the {which} {what}{' only' * inside}": _only(axis, place, inside)
       for axis, what in ((1, "head"), (0, "example"))
       for which, place in (("first", 0), ("last", -1))
       for how, inside in (("in", True), ("not in", False))},
    "tiled over folded heads": lambda keep: _fold(keep, lambda n, b, h: n % b),
    "repeated over tiled heads": lambda keep: _fold(
        keep, lambda n, b, h: (n % h * b + n // h) // h),
    "of the first example": lambda keep: np.broadcast_to(keep[:1], keep.shape),
    "of the last example": lambda keep: np.broadcast_to(keep[-1:], keep.shape),
    "of the example before": _turned(1), "of the example after": _turned(-1),
}
