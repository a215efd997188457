"""Probes for a layer: equal tokens, its parameters, its weights on request."""

import numpy as np

from .case import Finding, count
from .invariants import noise

MANY = 4  # heads


def same_tokens(program, case):
    """Test that equal tokens give equal outputs, for every query and every mask.

    The average of equal values is that value. Weights that do not sum to 1 give another output.
    """
    tokens = [np.broadcast_to(x[:1, :1], x.shape) for x in case.tokens()]
    same = case.with_tokens(tokens)
    free = same.with_mask(None, True) if case.keep is not None else same
    return case.compare(
        "same tokens", same.ask(program), free.ask(program)[:, :1],
        "Equal tokens give equal outputs.",
        "All tokens are equal, but one output is {got} and another is {expected} ({where}): the "
        "weights do not sum to 1.")


def weights_on_off(program, asking, case):
    """Test that ``asking(x, memory, keep) -> (out, weights)`` gives the same out."""
    return case.compare(
        "weights on/off", case.ask(asking), case.ask(program),
        "Asking for the weights does not change the output.",
        "Asked for its weights, it returns the output {got}, and otherwise {expected} ({where}).")


def parameter_count(number, d_in, d_model, biased="qkvo"):
    """Test that a layer has as many parameters as W_q, W_k, W_v, W_o and the biases of ``biased``.

    That is 4 d_in d_model, and d_model (for o, d_in) for each letter of ``biased``.
    """
    biases = sum(d_in if letter == "o" else d_model for letter in biased)
    expected = 4 * d_in * d_model + biases
    sentence = f"It has {number} parameters, as expected."
    if number != expected:
        parts = "W_q, W_k, W_v, W_o and their biases" if biased else "W_q, W_k, W_v, W_o"
        sentence = f"It has {number} parameters; {parts} have {expected}."
    return Finding("parameter count", number == expected, number, expected, "", sentence)


def weights_used(layer, case, weights, n_heads):
    """Test that changing any block of a weight changes an output, and changing b_k changes none.

    ``layer(x, memory, weights, n_heads, keep) -> out``. A block is one head's share of the rows and
    columns. b_k adds the same number to all scores of a query, which softmax ignores. A weight of
    zeros only is left out, as it stands for a missing bias.
    """
    def ask(weights):
        return case.ask(lambda x, memory, keep: layer(x, memory, weights, n_heads, keep))

    before, wrong = ask(weights), []
    used = {name: w for name, w in weights.items() if w.any()}
    other = {name: w + noise(w) for name, w in used.items()}
    for name, index in blocks(used, n_heads):
        changed = weights[name].copy()
        changed[index] = other[name][index]
        changes = np.abs(ask(weights | {name: changed}) - before).max() > case.tolerance
        if changes == (name == "b_k"):
            wrong.append(name)
    names = dict.fromkeys(wrong)
    unused = [name for name in names if name != "b_k"]
    said = [f"Changing a part of {', '.join(unused)} changes no output."] if unused else []
    if "b_k" in names:
        said.append("Changing b_k changes an output; the softmax should cancel a bias of the keys.")
    return count("weights used", len(wrong), "Every weight has its effect on the output.",
                 " ".join(said), ", ".join(names))


def blocks(weights, n_heads):
    """Yield (name, index) of each weight's blocks: n_heads by n_heads; a bias is one block.

    With more than MANY heads, only the blocks on two diagonals: row block n with column blocks n
    and n + 1.
    """
    for name, w in weights.items():
        if w.ndim == 1:
            yield name, slice(None)
            continue
        rows, columns = (np.array_split(np.arange(n), n_heads) for n in w.shape)
        yield from ((name, np.ix_(row, column)) for n, row in enumerate(rows)
                    for m, column in enumerate(columns)
                    if n_heads <= MANY or (m - n) % n_heads < 2)
