"""The exercises of the chapter on reading heads."""

import torch

from ._check import Check, Exercise
from ._judges import predictions
from ._reading_heads_ablations import judge_ablation_test


def _same_character(given):
    """Return what is wrong with a function same_character(tokens), "" if nothing is."""
    tokens = torch.randint(4, (3, 11), generator=torch.Generator().manual_seed(0))
    before = tokens.clone()
    found = given(tokens)
    if not torch.equal(tokens, before):
        return "It changes the tokens in place."
    if not isinstance(found, torch.Tensor) or found.shape != (3, 11, 11):
        shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
        return f"For tokens (3, 11) it must return a target (3, 11, 11), not {shape}."
    if found.dtype != torch.bool:
        return f"A target must be bool, not {found.dtype}."
    equal = tokens[:, :, None] == tokens[:, None, :]
    right = equal.tril(-1)
    if torch.equal(found, right):
        return ""
    for other, why in (
            (equal, "It contains later positions, too: only j < i may be True."),
            (equal.tril(), "It contains the query itself, which always has its own character. "
                           "*Earlier* means j < i."),
            (right.mT, "Queries and keys are exchanged: rows are i, columns are j."),
            (equal.triu(1), "Those are the *later* positions: j > i."),
            (right.any(dim=0).expand_as(right), "All sequences have the same target.")):
        if torch.equal(found, other):
            return why
    b, i, j = (found != right).nonzero()[0].tolist()
    return (f"For the tokens {tokens[b].tolist()} the target of query {i} at position {j} must be "
            f"{bool(right[b, i, j])}, but it is {bool(found[b, i, j])}.")


ABLATIONS = predictions(
    {"induction_on_twice": True, "brackets_on_twice": False, "previous_on_closing": False,
     "bracket_on_closing": True, "induction_before_previous": False,
     "previous_before_induction": True}, {
        "induction_on_twice": "How well is the second passage predicted if the model cannot find "
                              "the first?",
        "brackets_on_twice": "If a passage is repeated, which other head can tell that a bracket "
                             "comes next?",
        "previous_on_closing": "For a bracket that opened twenty positions ago, does it help to "
                               "know the previous character? `at_closing` has the numbers.",
        "bracket_on_closing": "The section “What would be lost” has the answer.",
        "induction_before_previous": "Which of the two layers is computed first?",
        "previous_before_induction": "How does 3.3 know the previous character of a position?"})

check = Check({
    "same_character": Exercise(_same_character, (
        "Compare the tokens with themselves, once as queries (b, i, 1), once as keys (b, 1, j).",
        "Keep what is equal and earlier: tril(-1) drops the diagonal and all above it."),
        "You compare all pairs and keep the earlier ones: a target has the form of a mask."),
    "predict_ablations": Exercise(ABLATIONS, (
        "One of the six is printed in “What would be lost”. For the others, ask what the head "
        "contributes and which layer is computed first.",
        "A head can only change what is computed after it, and only if its output is used."),
        "A head acts on later layers only, and ablating it hurts where its own work is needed."),
    "ablation_test": Exercise(judge_ablation_test, (
        "You need a second way to ablate a head, one that you trust. Which columns of W_o multiply "
        "its output?",
        "Set those columns to 0 and compare the outputs with those under `ablate`; then put them "
        "back. Try every layer and every head: a wrong column block may be right for head 0.",
        "What happens afterwards? The model must be the same as before."),
        "Zero columns in W_o ablate a head, too. Both ways must agree for every head, and the "
        "model must be unchanged afterwards."),
})
