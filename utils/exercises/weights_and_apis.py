"""The exercises of the page on weights and interfaces."""

import numpy as np

from .. import sizes
from ..checks import to_numpy
from ..parity import weights
from ._check import Check, Exercise
from ._judges import parts, prediction, recognise

SHAPES = ((2, 4, (11,)), (4, 5, (11,)), (2, 5, ()))  # heads, dimensions, axes behind the rows


def _rows(function):
    """Judge from_dimension_first(rows, n_heads): (d, 3, h) -> (3, h, d)."""
    rng = np.random.default_rng(6)
    for n_heads, d_head, behind in SHAPES:
        rows = rng.standard_normal((3 * n_heads * d_head, *behind))
        got = to_numpy(function(rows.copy(), n_heads))
        if got.shape != rows.shape:
            return (f"For rows {rows.shape} and n_heads={n_heads} it returns {got.shape}: the "
                    "rows must keep their shape. Those of a bias have one axis.")
        message = recognise(got, _known_rows(rows, n_heads, d_head))
        if message is None:
            message = ("the rows are in an order that is neither. Send the labels 0, 1, 2, … "
                       "through your function: which of them must come second?")
        if message:
            return f"With {n_heads} heads of {d_head} dimensions, {message}"
    return ""


def _known_rows(rows, h, d):
    """Yield (rows in some order, message), the right order first."""
    behind = rows.shape[1:]

    def moved(cut, axes):
        order = np.arange(len(rows)).reshape(cut).transpose(axes).ravel()
        return rows[order].reshape(len(rows), *behind)

    yield moved((d, 3, h), (1, 2, 0)), ""
    yield rows, "every row is where it was."
    yield moved((3, h, d), (2, 0, 1)), ("your function goes from (3, h, d) to (d, 3, h), which is "
                                        "the inverse.")
    yield moved((d, h, 3), (2, 1, 0)), ("it reads the rows as (d, h, 3). In (d k h), which index "
                                        "changes from each row to the next?")
    yield moved((3, d, h), (0, 2, 1)), ("it reads the rows as (3, d, h). In (d k h), which index "
                                        "changes most slowly?")
    yield moved((d, 3, h), (2, 1, 0)), ("the result is (h, 3, d), head by head. All of q must come "
                                        "first.")
    yield moved((d, 3, h), (1, 0, 2)), ("the result is (3, d, h): q, k and v are apart, but the "
                                        "heads are not.")


def _gpt2(function):
    """Judge keras_to_gpt2(arrays) -> (c_attn, c_proj), for a layer without biases."""
    W = sizes.weights(2, d_model=8, bias=False)
    right = dict(zip(("c_attn", "c_proj"), weights.to_gpt2(W), strict=True))
    got = function([array.copy() for array in weights.to_keras(W, 2)[::2]])
    if not isinstance(got, list | tuple) or len(got) != 2 or not all(
            isinstance(part, dict) for part in got):
        return "It must return two dicts, c_attn and c_proj."
    for (name, want), part in zip(right.items(), got, strict=True):
        if set(part) != {"w", "b"}:
            return (f"{name} must have the keys w and b, not {', '.join(part) or 'none'}. What "
                    "does a missing bias add?")
        for key, array in want.items():
            found = to_numpy(part[key])
            if found.shape == array.shape[::-1] != array.shape:
                return f"{name} {key} is {found.shape}, (out, in). GPT-2 stores (in, out)."
            if found.shape != array.shape:
                return f"{name} {key} must be {array.shape}, not {found.shape}."
            message = recognise(found, _known_parts(array, name))
            if message != "":
                return f"{name} {key}: {message or 'the numbers are not those of the layer.'}"
    return ""


def _known_parts(array, name):
    """Yield (array in some order, message), the right order first."""
    yield array, ""
    if name == "c_attn" and array.ndim == 2:
        cut = array.reshape(-1, 3, 2, 4)  # (in, 3, h, d)
        yield cut.swapaxes(1, 2).reshape(array.shape), ("the columns are packed head by head. All "
                                                        "of q must come first.")
        yield cut.swapaxes(2, 3).reshape(array.shape), (
            "the axes h and d are exchanged: the columns of a head must stand together.")
        yield cut[:, [0, 2, 1]].reshape(array.shape), "k and v are exchanged."
        yield cut[:, [1, 0, 2]].reshape(array.shape), "q and k are exchanged."
    if name == "c_proj" and array.ndim == 2:
        yield array.reshape(2, 4, -1).swapaxes(0, 1).reshape(array.shape), (
            "the axes h and d are exchanged: the rows of a head must stand together.")


check = Check({
    "dimension_first": Exercise(parts({
        "function": _rows,
        "in_place": prediction(2, {
            24: "Then the two orders would be the same.",
            0: "Where is dimension 0 of head 0 of q, in both orders?",
            1: "Row 0 is one of them. Where is the last dimension of the last head of v?",
            None: "Count the labels that are equal before and after your function."})}), (
        "(d k h) means that the rows, reshaped to (d, 3, h), have one axis for each index.",
        "Move the axis d behind the two others, and merge the three again.",
        "rows.reshape(-1, 3, n_heads, *rows.shape[1:]) works for weights and for biases. For "
        "in_place, use np.arange(24) as rows."),
        "The order is the only thing that you changed: no number was computed."),
    "keras_to_gpt2": Exercise(_gpt2, (
        "Go through the weight set: which from_… reads a list of arrays with an axis for heads?",
        "from_keras takes eight arrays, or four if there are no biases. Which to_… returns c_attn "
        "and c_proj?"),
        "Through the weight set, every layout leads to every other one."),
})
