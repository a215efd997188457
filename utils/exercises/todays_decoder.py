"""The exercises of the chapter on today's decoder."""

import torch

from ..checks import difference
from ._check import Check, Exercise
from ._judges import parts, prediction, recognise

WRONG = {
    "pairing": prediction(5, {
        6: "The first token attends only to itself. Which weight does it get, whatever its score?",
        None: "Rotations change scores. Which tokens have more than one key to attend to?"}),
    "gain": prediction(6, "The final gain multiplies the last x of every position."),
    "window": prediction(3, {
        2: "The window counts the query's own position: with 3, query 3 attends to keys 1 to 3.",
        None: "Which is the first query that has a fourth key to attend to?"}),
    "start": prediction(0, "A score depends on the difference of two positions. Does that change "
                           "when every position grows by 1?")}


def _fused(program):
    """Judge split_fused(W, n_heads, n_kv_heads): rows of q, of k, of v."""
    for n_heads, n_kv_heads, d in ((4, 2, 3), (6, 1, 4), (3, 3, 2)):
        rows = (n_heads + 2 * n_kv_heads) * d
        W = torch.arange(rows)[:, None] * torch.ones(1, 5)
        got = program(W, n_heads, n_kv_heads)
        if not isinstance(got, (tuple, list)) or len(got) != 3:
            return "it must return three arrays: q, k and v."
        want = W.split([n_heads * d, n_kv_heads * d, n_kv_heads * d])
        case = f"With {n_heads} heads of q, {n_kv_heads} of k and v, and d = {d}: "
        for side, mine, right in zip("qkv", got, want, strict=True):
            if tuple(mine.shape) != tuple(right.shape):
                hint = (" Did you cut thirds?" if n_heads != n_kv_heads and
                        mine.shape[0] * 3 == rows else "")
                return f"{case}{side} must be {tuple(right.shape)}, not {tuple(mine.shape)}.{hint}"
            if difference(mine, right) > 1e-9:
                first = mine[:, 0].long().tolist()[:3]
                return (f"{case}{side} must begin with row {int(right[0, 0])} of W, and yours has "
                        f"rows {', '.join(map(str, first))}, … The rows of all heads of q come "
                        "first, then all of k, then all of v.")
    return ""


def _min_p(program):
    """Judge min_p(logits, share): the chances of the tokens that are likely enough."""
    logits = 1.5 * torch.randn(3, 11, generator=torch.Generator().manual_seed(3)).double()
    logits[1, 4] = logits[1].max()  # two tokens are the likeliest
    share, p = 0.1, logits.softmax(dim=-1)
    before = logits.clone()
    got = program(logits, share)
    if not torch.equal(logits, before):
        return "it must not change the logits that it is given."
    if tuple(got.shape) != (3, 11):
        return f"it must return (b, token) = (3, 11), not {tuple(got.shape)}."

    def kept(keep):
        left = p * keep
        return left / left.sum(dim=-1, keepdim=True)

    limit = share * p.amax(dim=-1, keepdim=True)
    known = [(kept(p >= limit), ""),
             (p * (p >= limit), "the probabilities of what is left must add up to 1."),
             (p, "it keeps all tokens."),
             (kept(p >= share), "the limit is share times the largest probability, not share."),
             (kept(p >= share * p.max()), "the largest probability is that of each row, not of the "
                                          "whole batch."),
             (kept(logits >= share * logits.amax(dim=-1, keepdim=True)),
              "it compares logits. Compare probabilities."),
             (kept(p < limit), "it keeps the unlikely tokens."),
             (kept(p == p.amax(dim=-1, keepdim=True)), "it keeps the likeliest tokens only.")]
    message = recognise(got, known, 1e-9)
    if message is None:
        return (f"it differs from the right answer by {difference(got, known[0][0]):.1g}. Print "
                "one row, its largest probability and the limit.")
    return message


check = Check({
    "wrong": Exercise(parts(WRONG), (
        "All four answers are different.",
        "Query 0 has one key, and query 2 has three: 0, 1 and 2.",
        "RoPE's scores depend on the difference of the positions of query and key."),
        "So a test of these conventions needs several tokens, more than the window has."),
    "fused": Exercise(_fused, (
        "How many rows has a head? W has (h + 2 · h_kv) · d.",
        "tensor.split takes a list of sizes."),
        "With as many heads of k as of q, thirds would have been right, too."),
    "min_p": Exercise(_min_p, (
        "softmax first, then the largest probability of each row: amax with keepdim=True.",
        "Set what is below the limit to 0, and divide each row by its sum."),
        "Where the model is sure, few tokens are left; where it isn't, many are."),
})
