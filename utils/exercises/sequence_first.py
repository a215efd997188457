"""The exercises of the chapter on sequence first."""

import math

import numpy as np
import torch

from utils import masks, reference, sizes
from utils.checks import difference
from utils.exercises._axis import axis, biases
from utils.exercises._check import Check, Exercise, untouched
from utils.parity.weights import NAMES, to_linear

HEADS, D_MODEL, D_K = sizes.HEADS, sizes.D_MODEL, sizes.D_HEAD
SCALES = {1 / math.sqrt(D_K): "forward multiplies what get_scores returns by the scale, the table "
                              "included: 1/√d_k of it arrives.",
          1 / D_K: "you multiply the table by the scale, and forward does it once more: 1/d_k of "
                   "it arrives.",
          -1.0: "what stands in the table is added, not taken away."}


def _table(cls):
    if not isinstance(cls, type):
        return "The answer is the class itself, not a layer made of it."
    still = [name for name in ("__init__", "get_scores") if untouched(getattr(cls, name, None))]
    if still:
        return f"Still open: {' and '.join(still)}."
    return next(filter(None, (_costs(cls, n, reach) for n, reach in ((4, 3), (6, 2), (5, 8)))), "")


def _costs(cls, n, reach):
    """Return what is wrong with the class for n words and this reach, "" if nothing is."""
    rng = np.random.default_rng([n, reach])
    with torch.random.fork_rng(devices=[]):
        layer = cls(HEADS, D_MODEL, dropout_prob=0.0, reach=reach).double()
    table, shape = getattr(layer, "table", None), (2 * reach + 1, HEADS)
    if not isinstance(table, torch.nn.Parameter):
        return "There is no nn.Parameter `table`, and only parameters are trained."
    if tuple(table.shape) != shape:
        return (f"With reach={reach} and {HEADS} heads table should be {shape}, not "
                f"{tuple(table.shape)}.")
    W = sizes.weights(1, d_in=D_MODEL, d_out=D_MODEL)
    layer.load_state_dict({name: torch.as_tensor(w) for name, w in to_linear(
        W, NAMES["sequence_first"]).items()}, strict=False)
    with torch.no_grad():
        table.copy_(torch.as_tensor(rng.standard_normal(shape)))
    x = rng.standard_normal((2, n, D_MODEL))
    side = torch.as_tensor(x).transpose(0, 1)
    out = layer(query=side, key=side, value=side)
    why = _named(out.detach().transpose(0, 1), x, W, table.detach().numpy(), reach)
    return f"With {n} words and reach {reach}: {why}" if why else _gradient(
        out, table, min(n - 1, reach), reach, rng)


def _named(out, x, W, table, reach):
    """Return which wrong bias gives this output, "" if it is the right one."""
    for bias, why in _biases(table, reach, masks.offsets(x.shape[1])):
        if difference(out, _output(x, W, bias)) < 1e-9:
            return why
    right = next(_biases(table, reach, masks.offsets(x.shape[1])))[0]
    if difference(out, _output(x, W, right, comparing=0)) < 1e-9:
        return "only the table speaks: the scores of the parent are gone."
    return ("the answers are not those of scores / √d_k + table[reach + j − i]. Fill the table "
            "with zeros: is it plain attention? Then with a single 1.")


def _output(x, W, bias, comparing=1):
    """Return what comes out with this bias, and ``comparing`` times the scores of the parent."""
    q, k, v = reference.project(x, x, W, HEADS)
    context, _ = reference.attention(comparing * q, k, v, bias=bias)
    return reference.merge_heads(context) @ W["W_o"] + W["b_o"]


def _biases(table, reach, offset):
    """Yield the right bias (h, i, j), and wrong ones, with what is wrong; offset: j − i."""
    row, turn = np.clip(offset, -reach, reach) + reach, 2 * reach
    cost, turned = (np.moveaxis(table[rows], -1, 0) for rows in (row, turn - row))
    way = "the row is reach + j − i, yours is reach + i − j. ALiBi would never have told."
    yield cost, ""
    yield turned, way
    yield 0 * cost, "the table makes no difference."
    for factor, why in SCALES.items():
        yield factor * cost, why
        yield factor * turned, f"{way} And {why}"
    yield (np.moveaxis(table[abs(row - reach) + reach], -1, 0),
           "keys before and after the query take the same row: j − i has a sign.")
    yield (cost * (abs(offset) <= reach),
           "beyond reach a distance counts as reach; in yours nothing is added there.")
    yield (np.moveaxis(table[(offset + reach) % len(table)], -1, 0),
           "beyond reach your rows begin anew at the other end of the table.")
    yield cost * (offset != 0), "a word is at distance 0 from itself, and that has a row: reach."


def _gradient(out, table, farthest, reach, rng):
    """Return what is wrong with the gradient of the table: exactly what occurs learns."""
    if not out.requires_grad:
        return "Nothing would learn: the output has lost its gradient."
    out.backward(torch.as_tensor(rng.standard_normal(out.shape)))
    if table.grad is None or not table.grad.any():
        return ("The answers are right, but the table gets no gradient and would never learn: "
                "where is it cut off (detach, .data, a copy)?")
    learns = (table.grad != 0).any(dim=1).tolist()
    if learns != [abs(d) <= farthest for d in range(-reach, reach + 1)]:
        return "The answers are right, but other rows get a gradient than those that occur."
    return ""


check = Check({
    "table_of_distances": Exercise(_table, (
        "First the rows: masks.offsets(n_q, n_k) holds j − i. What lies beyond reach is clamped; "
        "then reach is added, so that no row is negative.",
        "table[row] is (i, j, h), and scores are (i, j, b, h): the cost is the same for every "
        "example.",
        "What get_scores returns is scaled by forward. AlibiMultiHeadAttention had the same "
        "trouble with its bias."),
        "A learned cost for each distance is what T5 adds to its scores (far distances share a "
        "row); ALiBi is one filling of your table."),
    "idle_biases": Exercise(biases, (
        "q · (k + b) = q · k + q · b: does the second term differ from key to key, within a row? "
        "And (q + b) · k?",
        "An average of values that are all shifted by b is shifted by b, if its weights sum to 1.",
        "Follow b from the context through nn.Linear: it computes x @ weight.T + bias."),
        "Softmax forgives what a whole row shares, and weights that sum to 1 pass a constant on."),
    "axis": Exercise(axis, (
        "You choose query, key and value. For which values is the context known, whatever the "
        "weights are, as long as those of a query sum to 1?",
        "If all keys say the same word, their average is that word. If weights sum to 1 over "
        "something else, it comes out too loud or too quiet.",
        "Random query and key, all sizes different, one word for all keys, and a comparison that "
        "forgives rounding."),
        "Values that are all alike make visible what the weights of a query sum to, and hide "
        "which keys they are: that is also what your probe misses."),
})
