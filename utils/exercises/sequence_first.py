"""The exercises of the chapter on sequence first."""

import math

import numpy as np
import torch

from .. import masks, reference, sizes
from ..parity.weights import NAMES, to_linear
from ._check import Check, Exercise, not_attempted
from ._judges import each_prediction, parts, recognise
from ._sequence_first_axis import judge_axis

HEADS, D_MODEL, D_K = sizes.HEADS, sizes.D_MODEL, sizes.D_HEAD
FACTORS = {1 / math.sqrt(D_K): "forward multiplies all that get_scores returns by the scale, so "
                               "only 1/√d_k of the table is added.",
           1 / D_K: "you multiply the table by the scale, and forward does so again, so only 1/d_k "
                    "of the table is added.",
           -1.0: "the table must be added, not subtracted."}


def _table_of_distances(cls):
    if not isinstance(cls, type):
        return "The answer must be the class itself, not a layer made from it."
    still_open = [name for name in ("__init__", "get_scores")
                  if not_attempted(getattr(cls, name, None))]
    if still_open:
        return f"Still open: {' and '.join(still_open)}."
    return _costs(cls, 4, 3) or _costs(cls, 6, 2) or _costs(cls, 5, 8)


def _costs(cls, n, reach):
    """Return what is wrong with the class for n tokens and this reach, "" if nothing is."""
    rng = np.random.default_rng([n, reach])
    with torch.random.fork_rng(devices=[]):
        layer = cls(HEADS, D_MODEL, dropout_prob=0.0, reach=reach).double()
    table, shape = getattr(layer, "table", None), (2 * reach + 1, HEADS)
    if not isinstance(table, torch.nn.Parameter):
        return "`table` is not an nn.Parameter, and only parameters are trained."
    if tuple(table.shape) != shape:
        return (f"With reach={reach} and {HEADS} heads, table must be {shape}, not "
                f"{tuple(table.shape)}.")
    W = sizes.weights(1, d_in=D_MODEL, d_out=D_MODEL)
    linear = to_linear(W, NAMES["sequence_first"])
    layer.load_state_dict({name: torch.as_tensor(w) for name, w in linear.items()}, strict=False)
    with torch.no_grad():
        table.copy_(torch.as_tensor(rng.standard_normal(shape)))
    x = rng.standard_normal((2, n, D_MODEL))
    side = torch.as_tensor(x).transpose(0, 1)
    out = layer(query=side, key=side, value=side)
    known = _known_outputs(x, W, table.detach().numpy(), reach)
    message = recognise(out.detach().transpose(0, 1), known)
    if message is None:
        message = ("the output is not that of scores / √d_k + table[reach + j − i]. Fill the table "
                   "with zeros: is it plain attention? Then try a single 1 in it.")
    if message:
        return f"With {n} tokens and reach {reach}: {message}"
    return _gradient(out, table, min(n - 1, reach), reach, rng)


def _known_outputs(x, W, table, reach):
    """Yield (output, message), the right output first."""
    q, k, v = reference.project(x, x, W, HEADS)

    def output(bias, q=q):
        context, _ = reference.attention(q, k, v, bias=bias)
        return reference.merge_heads(context) @ W["W_o"] + W["b_o"]

    for bias, message in _known_biases(table, reach, masks.offsets(x.shape[1])):
        yield output(bias), message
        if not message:
            yield (output(bias, q=0 * q),
                   "only the table has an effect: the scores of the parent class are missing.")


def _known_biases(table, reach, offset):
    """Yield (bias (h, i, j), message), the right bias first; offset is j − i."""
    row = np.clip(offset, -reach, reach) + reach
    right, inverted = (np.moveaxis(table[rows], -1, 0) for rows in (row, 2 * reach - row))
    sign = ("the row must be reach + j − i, and yours is reach + i − j. ALiBi would not catch "
            "that.")
    yield right, ""
    yield inverted, sign
    yield 0 * right, "the table makes no difference."
    for factor, message in FACTORS.items():
        yield factor * right, message
        yield factor * inverted, f"{sign} And {message}"
    yield (np.moveaxis(table[abs(row - reach) + reach], -1, 0),
           "keys before and after the query take the same row, but j − i has a sign.")
    yield (right * (abs(offset) <= reach),
           "a distance beyond reach must count as reach; yours adds nothing there.")
    yield (np.moveaxis(table[(offset + reach) % len(table)], -1, 0),
           "beyond reach your rows start again at the other end of the table.")
    yield (right * (offset != 0),
           "a token has distance 0 to itself, and that distance has a row: reach.")


def _gradient(out, table, farthest, reach, rng):
    """Return what is wrong with the table's gradient: rows that occur get one, others do not."""
    if not out.requires_grad:
        return "The output has no gradient, so nothing would be trained."
    out.backward(torch.as_tensor(rng.standard_normal(out.shape)))
    if table.grad is None or not table.grad.any():
        return ("The outputs are right, but the table gets no gradient, so it would never be "
                "trained: where is it cut off (detach, .data, a copy)?")
    trained = (table.grad != 0).any(dim=1).tolist()
    if trained != [abs(d) <= farthest for d in range(-reach, reach + 1)]:
        return "The outputs are right, but other rows get a gradient than those that occur."
    return ""


IDLE = each_prediction({"nothing": "key", "moved": "value", "fails": 5}, {
    "nothing": {"query": "(q + b) · k = q · k + b · k, and b · k differs from key to key.",
                "value": "It is added to every context, so it changes the output.",
                "output": "It is added to every output.",
                None: "Answer query, key, value or output."},
    "moved": {"query": "What it adds to a score differs from key to key; no other bias does that.",
              "key": "This bias has no effect, so there is nothing to move.",
              "output": "That would need the inverse of a matrix, which may not exist; the other "
                        "direction needs no inverse.",
              None: "Answer query, key, value or output."},
    "fails": {0: "The argument needs weights that sum to 1. What do the weights of a fully masked "
                 "row sum to?",
              10: "In example 0 every query has seven keys, and its weights sum to 1.",
              1: "A whole example is fully masked: count its queries.",
              7: "Count queries, not keys.", None: "Which rows of weights do not sum to 1?"}})


def _receive(receive):
    """Judge receive(moved, other, W): the new bias of the receiving layer."""
    rng, e = np.random.default_rng(3), D_MODEL
    moved, other, W = (torch.as_tensor(rng.standard_normal(shape))
                       for shape in ((e,), (e,), (e, e)))
    message = recognise(receive(moved.clone(), other.clone(), W.clone()), (
        (other + W @ moved, ""),
        (other + moved, "there is a matrix between the two: the bias is multiplied by it."),
        (other + W.T @ moved, "nn.Linear stores its matrix as (out, in). You multiply by its "
                              "transpose; as it is square, there is no error."),
        (other - W @ moved, "this subtracts it: what is lost there must be added here."),
        (W @ moved, "the receiving layer had a bias of its own."),
        (W @ (moved + other), "the receiving layer's own bias is not multiplied by W."),
        (other, "the bias is unchanged.")))
    if message is None:
        message = (f"it must return one bias, {tuple(other.shape)}: what else must be added to the "
                   "output if every context grows by `moved`?")
    return message


check = Check({
    "idle_biases": Exercise(parts(IDLE | {"receive": _receive}), (
        "q · (k + b) = q · k + q · b: does the second term differ from key to key, within a row? "
        "And in (q + b) · k?",
        "If you add b to all values, their average grows by b, provided that its weights sum to 1.",
        "Follow b from the context through nn.Linear: it computes x @ weight.T + bias."),
        "Softmax ignores what a whole row shares, and weights that sum to 1 pass on a constant "
        "unchanged."),
    "axis": Exercise(judge_axis, (
        "You choose query, key and value. For which values do you know the context, whatever the "
        "weights of a query are, as long as they sum to 1?",
        "If all keys have the same value, the average is that value. If the weights sum to 1 over "
        "another axis, the result is too large or too small.",
        "Use random query and key, sizes that all differ, one value for all keys, and a comparison "
        "with a tolerance."),
        "Equal values show what the weights of a query sum to, but not to which keys they belong: "
        "so your probe misses a mask that is inverted or off by one."),
    "table_of_distances": Exercise(_table_of_distances, (
        "First compute the rows: masks.offsets(n_q, n_k) is j − i. Clamp what is beyond reach; "
        "then add reach, so that no row is negative.",
        "table[row] is (i, j, h), and scores are (i, j, b, h): the cost is the same for every "
        "example.",
        "forward scales what get_scores returns. AlibiMultiHeadAttention had the same problem with "
        "its bias."),
        "T5 adds such a learned cost for each distance to its scores (far distances share a row); "
        "ALiBi is one possible table."),
})
