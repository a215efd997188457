"""The exercises of the chapter on the language model."""

import torch

from ._check import Check, Exercise
from ._judges import join_messages, predictions, recognise
from ._language_model_beam import judge_beam

TELLS = predictions(
    {"training": False, "held_out": False, "noise": True, "text": True, "leaks": True,
     "chunks": True}, {
        "training": "The input contains the target. Does it look different in training?",
        "held_out": "A held-out passage is also given whole, and all its positions are predicted "
                    "at once.",
        "noise": "A random character cannot be predicted. What does a model do that sees it?",
        "text": "While it writes, the next character is not in its input. So can it copy it?",
        "leaks": "It changes a later position and compares the earlier outputs.",
        "chunks": "In one pass, each position attends to later ones. And in chunks?"})


def _nucleus(nucleus):
    """Judge nucleus(logits, p): the probabilities (b, token) from which to draw."""
    generator = torch.Generator().manual_seed(0)
    logits = 1.5 * torch.randn(4, 11, generator=generator, dtype=torch.float64)
    for p in (0.6, 0.9, 0.05, 1.0):
        before = logits.clone()
        found = nucleus(logits, p)
        if not torch.equal(logits, before):
            return "It changes the logits in place."
        if not isinstance(found, torch.Tensor) or found.shape != logits.shape:
            shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
            return f"For logits (4, 11) it must return probabilities (4, 11), not {shape}."
        message = _wrong_probabilities(found, logits.softmax(dim=-1), p)
        if message:
            return message
    return ""


def _kept(probabilities, p):
    """Return which tokens the nucleus of each row holds, (b, token) -> bool."""
    falling, order = probabilities.sort(dim=-1, descending=True, stable=True)
    before = falling.cumsum(dim=-1) - falling
    return torch.zeros_like(probabilities, dtype=torch.bool).scatter(-1, order, before < p)


def _wrong_probabilities(found, probabilities, p):
    """Return what is wrong with the probabilities of the nucleus, "" if nothing is."""
    kept = _kept(probabilities, p)
    message = recognise(found, _known_probabilities(probabilities, kept, p), 1e-6)
    if message is None:
        message = recognise(found.nan_to_num() > 0, _known_choices(probabilities, p), 0.5)
    if message is not None:
        return message
    total, count, wanted = found[0].sum(), int((found[0] > 0).sum()), int(kept[0].sum())
    messages = []
    if abs(total - 1) > 1e-6:
        messages.append(f"The probabilities of row 0 add up to {total:.3f}.")
    if count != wanted:
        messages.append(f"With p = {p}, row 0 keeps {count} tokens; {wanted} are needed.")
    return join_messages(messages) or (
        f"With p = {p} the right number of tokens is kept, but the probabilities are wrong: is "
        "each of them back at its index?")


def _known_probabilities(probabilities, kept, p):
    """Yield (probabilities, message), the right ones first."""
    falling, order = probabilities.sort(dim=-1, descending=True)
    rising, back = probabilities.sort(dim=-1)
    none = torch.zeros_like(kept)
    below = none.scatter(-1, order, falling.cumsum(dim=-1) <= p)
    least = none.scatter(-1, back, rising.cumsum(dim=-1) - rising < p)
    yield _normalised(probabilities * kept), ""
    yield (probabilities * kept,
           "The right tokens are kept, but their probabilities no longer add up to 1.")
    yield probabilities, "No token is removed: these are the model's own probabilities."
    yield _normalised(probabilities * below), (
        "You keep one token too few: those that are kept must add up to *at least* p, so the token "
        "that reaches p is one of them.")
    yield _normalised(probabilities * (probabilities >= p)), (
        "You compare p with the probability of each token alone. Add them up, from the largest "
        "down.")
    yield _normalised(falling * kept.gather(-1, order)), (
        "The probabilities are still sorted: token 0 has the largest. Put each back at its index.")
    yield (_normalised(probabilities * least),
           "Those are the *least* likely tokens: sort from the largest down.")
    yield (_normalised(probabilities * kept[:1]),
           "Row 0 decides for all rows, but each row has a nucleus of its own.")


def _known_choices(probabilities, p):
    """Yield (which tokens are kept, message), whatever their probabilities have become."""
    falling, order = probabilities.sort(dim=-1, descending=True)
    in_order = probabilities.cumsum(dim=-1)
    below = falling.cumsum(dim=-1) <= p
    message = ("You keep one token too few: the sum of those that are kept must *reach* p. If the "
               "first token alone exceeds p, you keep none, and 0 / 0 is NaN.")
    yield torch.zeros_like(below).scatter(-1, order, below), message
    yield below, message + " And the probabilities are still sorted: put each back at its index."
    for kept in (in_order <= p, in_order - probabilities < p):
        yield kept, ("You add the probabilities up in the order of the vocabulary: first sort them "
                     "from the largest down.")


def _normalised(rows):
    """Return rows divided by their sums; rows of zeros stay."""
    return rows / rows.sum(dim=-1, keepdim=True).clamp(min=1e-300)


check = Check({
    "which_number_tells": Exercise(TELLS, (
        "In which of the six is the next character in the model's input while it is predicted?",
        "A leak shows if the next character must be predicted and is not given, or if the same "
        "positions are computed once with later characters and once without."),
        "Bits on a fixed text, training or held out, prove nothing: in both, the input contains "
        "the target. To find the leak, predict without the target in the input, or change later "
        "characters."),
    "nucleus": Exercise(_nucleus, (
        "Sort the probabilities of a row, from the largest down, and add them up.",
        "A token is kept if those *before* it do not yet add up to p. So one is always kept.",
        "scatter, or a second argsort, puts what was sorted back at its index; then divide by the "
        "sum."),
        "Where the model is sure, one token is kept; where it is not, many are. A fixed number, as "
        "in top-k, cannot do both."),
    "beam": Exercise(judge_beam, (
        "Keep two things for each beginning: its tokens, and the sum of the logs of their "
        "probabilities.",
        "(width, 1) sums plus (width, n_tokens) logs are the sums of all children. topk of the "
        "flattened sums finds the best.",
        "The index of a child in the flattened sums, divided by n_tokens, is the row of its "
        "beginning; the remainder is its last token."),
        "A beginning that is only second best now may lead to the likeliest text. But the "
        "likeliest text is seldom the best: see what your model writes."),
})
