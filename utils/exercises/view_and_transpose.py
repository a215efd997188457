"""The exercises of the chapter on view and transpose."""

import numpy as np
import torch

from ..attention.torch import attention
from . import _view_and_transpose_layer as two_sequences
from ._check import Check, Exercise, not_attempted
from ._judges import join_messages, parts, prediction, wrong_keys

CHECKS = "causality", "reference"
PASSES = {"line_1": (1, 1), "line_2": (1, 0), "line_3": (1, 0), "line_4": (1, 1), "line_5": (0, 0)}
MARKS = {"1": 1, "True": 1, "0": 0, "False": 0}
WHY = {
    "causality": {
        "line_2": "Without the transpose the numbers keep their order on the strip: from which "
                  "tokens is a later row, and where does the merge put it?",
        "line_5": "It transposes *before* the view. Which numbers are neighbours then, and from "
                  "how many tokens are the numbers of one row?",
        None: "Every row holds a single token. So which later token could it depend on?"},
    "reference": {
        "line_1": "These are the two lines of this page.",
        "line_2": "From how many of the five tokens does its head 0 get numbers?",
        "line_3": "Which four of the dimensions 0 to 11 does its head 0 get?",
        "line_4": "Compare it with the columns that the loop over the heads cuts out.",
        "line_5": "Which four numbers are in the first row of its head 0?"}}


def _one_liners(table):
    if not isinstance(table, dict) or set(table) != set(PASSES):
        return wrong_keys(PASSES)
    names_of, still_open = {}, []  # {(check, why): the programs that are marked wrong}
    for name, row in table.items():
        if row is None or row is ...:
            still_open.append(name)
            continue
        row = list(row) if isinstance(row, str) else np.asarray(row, dtype=object).tolist()
        if len(row) != len(CHECKS):
            return f"{name}: two checks need two marks; yours has {len(row)}."
        for what, mark, right in zip(CHECKS, row, PASSES[name], strict=True):
            if not_attempted(mark):
                still_open.append(f"{what} of {name}")
            elif str(mark) not in MARKS:
                return f"{name}: {mark!r} is neither 1 (it passes) nor 0 (it fails)."
            elif MARKS[str(mark)] != right:
                why = WHY[what].get(name, WHY[what].get(None))
                names_of.setdefault((what, why), []).append(name)
    lines = [f"{what} of {', '.join(names)} is wrong. {why}"
             for (what, why), names in names_of.items()]
    if still_open:
        lines.append(f"Still open: {', '.join(still_open)}.")
    elif lines:
        lines.insert(0, f"{10 - sum(map(len, names_of.values()))} of 10 marks are right.")
    return join_messages(lines)


def _mixing(visible):
    """Return a program in which query i gets the mean of the tokens that it may see."""
    def program(x):
        weights = torch.as_tensor(visible, dtype=x.dtype)
        return weights / weights.sum(dim=-1, keepdim=True) @ x
    return program


def _untransposed(x):
    heads = x.reshape(*x.shape[:2], 3, -1)
    return attention(heads, heads, heads)[0].reshape(x.shape)


# A program, whether no token affects another in it, and what is said of a wrong answer.
ALONE = (
    (_untransposed, True, "It returns False for the program without a transpose, in which no "
                          "token affects another. Is the changed token itself left out?"),
    (lambda x: x + torch.tanh(x), True, "It returns False for a program that adds tanh(x) to x, "
                                        "token by token."),
    (_mixing(np.ones((5, 5))), False, "It returns True for a program in which all tokens see each "
                                      "other."),
    (_mixing(np.tri(5)), False, "It returns True for a program in which tokens see earlier ones. "
                                "Which token do you change?"),
    (_mixing(np.tri(5).T), False, "It returns True for a program in which tokens see later ones. "
                                  "Which token do you change?"),
    (_mixing(np.eye(5) + np.eye(5)[[0, 1, 3, 2, 4]]), False,
     "It returns True for a program in which only tokens 2 and 3 see each other. Change each token "
     "in turn."))


def _alone(alone):
    for program, want, message in ALONE:
        got = alone(program)
        if not isinstance(got, (bool, np.bool_)):
            return f"It returns {type(got).__name__}; return True or False."
        if got != want:
            return message
    return ""


check = Check({
    "one_liners": Exercise(_one_liners, (
        "Use the numbers 0 to 59, as in `number`: divided by 12, a number gives its token, and the "
        "remainder is its dimension.",
        "Causality holds if no number in a row comes from a token after the row's position in the "
        "output. The reference holds if head 0 has the dimensions 0 to 3 of every token."),
        "Causality catches one bug of three; lines 2 and 3 pass until you compare values."),
    "untransposed": Exercise(parts({
        "scores": prediction((2, 5, 3, 3), {
            (2, 3, 5, 5): "That is the shape with the transpose.",
            (2, 5, 5, 5): "The scores have one row and one column for each index of the axis "
                          "before the last.",
            (2, 5, 3, 4): "That is the shape of `viewed`. The scores are its product with its own "
                          "transpose."}),
        "shape": prediction(True, "`reshape` gives it the shape of the input, whatever is in it."),
        "row sums": prediction(True, "Softmax comes after the scores, and its rows sum to 1 for "
                                     "any scores."),
        "causality": prediction(True, "Which other tokens does the output of a token depend on?"),
        "alone": _alone}), (
        "`@` multiplies the last two axes of `viewed`. Which axes are these, and which are only "
        "counted through?",
        "If no token affects another, then a change of one token leaves all other outputs as they "
        "are. Try it for each token in turn.",
        "Change a copy of `x`, not `x` itself, and compare the outputs of the *other* tokens."),
        "It passes causality without a mask, because a token that sees nothing cannot see the "
        "future."),
    "two_sequences": Exercise(two_sequences.judge, (
        "In `__init__`: `super().__init__()`, the number of heads, d_head, and four nn.Linear. "
        "Only their sizes differ from those of the class above.",
        "The keys and values have the length of `source`. So take the length from what is split, "
        "or write -1 for it in `view`.",
        "To merge, transpose and join the last two axes: their product is n_heads * d_head, which "
        "is not d_in."),
        "This layer also attends from one sequence to another, as in a translator, and its heads "
        "may be of any size."),
})
