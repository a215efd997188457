"""The exercises of the chapter on reading heads."""

import torch

from utils.exercises._ablation import tells_right_from_wrong
from utils.exercises._check import Check, Exercise, predictions


def same_character(given):
    """Return what is wrong with a function same_character(tokens), "" if nothing is."""
    tokens = torch.randint(4, (3, 11), generator=torch.Generator().manual_seed(0))
    before = tokens.clone()
    found = given(tokens)
    if not torch.equal(tokens, before):
        return "It writes into the tokens that it was given."
    if not isinstance(found, torch.Tensor) or found.shape != (3, 11, 11):
        shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
        return f"For tokens (3, 11) it returns a target (3, 11, 11), not {shape}."
    if found.dtype != torch.bool:
        return f"A target is bool, this is {found.dtype}."
    equal = tokens[:, :, None] == tokens[:, None, :]
    right = equal.tril(-1)
    if torch.equal(found, right):
        return ""
    for other, why in (
            (equal, "Later places are in it, too: i may look at j < i only."),
            (equal.tril(), "The query itself is in it, which always has its own character. "
                           "*Earlier* means j < i."),
            (right.mT, "Queries and keys are exchanged: i runs down, j across."),
            (equal.triu(1), "Those are the *later* places: j > i."),
            (right.any(dim=0).expand_as(right), "All texts got the same target.")):
        if torch.equal(found, other):
            return why
    b, i, j = (found != right).nonzero()[0].tolist()
    return (f"For the tokens {tokens[b].tolist()} the target of query {i} at place {j} should be "
            f"{bool(right[b, i, j])}, and is {bool(found[b, i, j])}.")


ABLATIONS = predictions(
    {"induction_on_twice": True, "brackets_on_twice": False, "previous_on_closing": False,
     "bracket_on_closing": True, "induction_before_previous": False,
     "previous_before_induction": True}, {
        "induction_on_twice": "What does a second telling cost a model that cannot look back?",
        "brackets_on_twice": "When a text is told twice, who else knows that a bracket comes next?",
        "previous_on_closing": "Does it help, for a bracket that opened twenty places ago, to know "
                               "the left neighbour? The figures stand above, in `at_closing`.",
        "bracket_on_closing": "Look at the answer of the section “What would be lost”.",
        "induction_before_previous": "Which of the two layers is computed first?",
        "previous_before_induction": "How does 3.3 know what stood to the left of a place?"})

check = Check({
    "same_character": Exercise(same_character, (
        "Compare the tokens with themselves, once as queries (b, i, 1), once as keys (b, 1, j).",
        "What is equal and earlier: tril(-1) drops the diagonal and all above it."),
        "Compare all pairs, keep the earlier ones: a target is a mask that asks instead of "
        "forbidding."),
    "predict_ablations": Exercise(ABLATIONS, (
        "Three of the six numbers are on the page; the others follow from what comes before what.",
        "A head can only change what is computed after it, and only what somebody reads."),
        "Heads act on later layers only, and each is missed where its own work is asked for."),
    "ablation_test": Exercise(tells_right_from_wrong, (
        "You need a second way to silence a head that you trust. Which columns of W_o read it?",
        "Set those columns to 0 and compare the outputs with those under `ablate`; then put them "
        "back. Try every layer and every head: a wrong stripe may be right for head 0.",
        "And afterwards? The model must be what it was before."),
        "A head is silent if and only if nobody reads it: that is a second program for the same "
        "thing, and the two must agree, for every head, with the model whole afterwards."),
})
