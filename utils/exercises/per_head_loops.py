"""The exercises of the chapter on loops over heads."""

import numpy as np
import torch

from ..attention.torch import attention_per_head
from . import _per_head_loops_causal as causal, _per_head_loops_matrices as by_hand
from ._check import Check, Exercise, not_attempted
from ._judges import wrong_keys

MATRICES = ("W_q", "W_k", "W_v")
PAGE, CUT, SHARED, BOTH = ("the program of this page", "the first bug alone",
                           "the second bug alone", "thrifty_heads")


def _who_bites(given):
    if not isinstance(given, dict) or set(given) != {*MATRICES, "as one head"}:
        return wrong_keys((*MATRICES, "as one head"))
    still_open = [name for name in given if not_attempted(given[name])]
    if set(still_open) & set(MATRICES):
        return f"Still open: {', '.join(still_open)}."
    W = {name: torch.as_tensor(np.asarray(given[name], dtype=float)) for name in MATRICES}
    problem = by_hand.shapes(W) or by_hand.two_heads(W)
    if problem:
        return problem
    if still_open:
        return "The two heads are right. Still open: as one head."
    return _as_one_head(W, given["as one head"])


def _as_one_head(W, given):
    given = torch.as_tensor(np.asarray(given, dtype=float))
    if given.shape != (6,):
        return (f"as one head: one head has all six value dimensions, so its context has six "
                f"numbers; yours has the shape {tuple(given.shape)}.")
    context, weights = by_hand.verb(W, "dog bites man", 1)
    if torch.allclose(given, context, atol=0.02):
        return ""
    if torch.allclose(given, by_hand.verb(W, "dog bites man", 2)[0], atol=0.02):
        return ("as one head: your prediction is that of two heads. They have two sets of weights, "
                "so their values stay separate; one head has a single set.")
    if torch.allclose(given, context / weights.max(), atol=0.02):
        return "as one head: to get both words in full, the weights would have to sum to 2."
    return ("as one head: for each key, the scores of the two heads are now added and divided by "
            "√2. Which keys have the largest scores now, and what happens to their values?")


def _cheap_programs(seed):
    """Return {name: program (b, i, 12) -> context}: the page's, one with each bug, one with both.

    With the first bug a head receives only its slice of x, with the second all heads share their
    matrices.
    """
    generator = torch.Generator().manual_seed(seed)
    full = torch.randn(3, 12, 12, generator=generator, dtype=torch.float64) / 12 ** 0.5
    blocks = torch.block_diag(*torch.ones(3, 4, 4, dtype=torch.float64))
    matrices = {PAGE: full, CUT: full * blocks, SHARED: full[..., :4].repeat(1, 1, 3),
                BOTH: full[:, :4, :4].repeat(1, 3, 3) * blocks}
    return {name: _program(W) for name, W in matrices.items()}


def _program(W):
    def program(x):
        q, k, v = (torch.as_tensor(x, dtype=torch.float64) @ matrix for matrix in W)
        return attention_per_head(q, k, v, 3)[0]
    return program


def _passes(check, program):
    """Return the result of a reader's check; None counts as True, a failed assert as False."""
    try:
        result = check(program)
    except AssertionError:
        return False
    return result is None or bool(result)


def _thrifty(given):
    """Judge two checks: each must catch one of the two bugs of thrifty_heads, and nothing else."""
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(map(callable, given)):
        return "The answer must be a list of two functions."
    caught = []
    for check in given:
        if not_attempted(check):
            return f"{check.__name__} is still open."
        draws = [{name: _passes(check, program) for name, program in _cheap_programs(seed).items()}
                 for seed in range(3)]
        rejected = {name for name in draws[0] if not any(passes[name] for passes in draws)}
        problem = _about_one(rejected, [passes[PAGE] for passes in draws])
        if problem:
            return f"{check.__name__}: {problem}"
        caught.append(rejected & {CUT, SHARED})
    if len(caught[0] | caught[1]) < 2:
        return ("Both checks catch the same bug. Fix that bug in thrifty_heads and ask again: what "
                "can the heads of this page do that the fixed ones still cannot?")
    return ""


def _about_one(rejected, page_passes):
    """Return what is wrong with one check, given the programs that it always rejects."""
    if PAGE in rejected and BOTH not in rejected:
        return "its result is inverted: True must mean that the program passes."
    if not all(page_passes):
        return ("this is a false alarm: the program of this page fails it with "
                f"{page_passes.count(False)} of 3 random draws of parameters. What holds for every "
                "draw?")
    if BOTH not in rejected:
        return ("thrifty_heads passes. For which input would the program of this page give "
                "different results?")
    if not rejected & {CUT, SHARED}:
        return "it passes as soon as one of the two bugs is fixed. Ask about one bug at a time."
    return ""


check = Check({
    "who_bites": Exercise(_who_bites, (
        "What does each head need to find its word: which word it is, or its position? And what "
        "should the values hold: the position or the word?",
        "A score is a dot product. Give every query one large number (the position part of x can "
        "supply it), and let only one position have a key that matches it.",
        "The columns of a matrix belong to heads: 0 to 2 to head 0, 3 to 5 to head 1. Rows 0 to 2 "
        "multiply the word, rows 3 to 5 the position. W_v leads from the word into both heads."),
        "Each head finds its word by the position and returns the word, so it needs both halves of "
        "the embedding. One head with the same matrices has one set of weights, so it mixes the "
        "two words."),
    "causal_heads": Exercise(causal.judge, (
        "Split x @ W_q, x @ W_k and x @ W_v with np.split, and loop over the heads as this page "
        "does.",
        "np.tri(n, dtype=bool) is True on the diagonal and below it. Where it is False, the scores "
        "become -inf, before softmax: np.where(past, scores, -np.inf).",
        "np.hstack puts the contexts of the heads side by side, (n, d_model). The last step is a "
        "product with W_o."),
        "You have causal multi-head attention that needs nothing but NumPy. That of GPT-2 "
        "differs from it only by its biases."),
    "thrifty": Exercise(_thrifty, (
        "There are two questions. What does a head receive, before its matrices? And whose "
        "matrices does it use?",
        "To find out whether a head depends on a dimension, change that dimension and compare the "
        "head's four numbers of the context.",
        "If every head receives the same input, heads with different matrices will still differ."),
        "Each check fails if only its own bug is present, so it would have caught that bug without "
        "the other; and both pass on the program of the page."),
})
