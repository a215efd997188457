"""The exercises of the chapter on loops over heads."""

import numpy as np
import torch

from utils.exercises import _heads_by_hand as by_hand
from utils.exercises._check import Check, Exercise, predictions, untouched
from utils.exercises._thrifty_heads import judge

GIVEN = ("W_q", "W_k", "W_v", "as one head")


def _bites(given):
    if not isinstance(given, dict) or set(given) != set(GIVEN):
        return f"The answer is a dict with the keys {', '.join(map(repr, GIVEN))}."
    open_ = [name for name in GIVEN if untouched(given[name])]
    if set(open_) & set(GIVEN[:3]):
        return f"Still open: {', '.join(open_)}."
    W, problem = by_hand.matrices(given)
    said = problem or by_hand.two_heads(W)
    if said or open_:
        return said or f"The two heads are right. Still open: {open_[0]}."
    return _as_one_head(W, given["as one head"])


def _as_one_head(W, given):
    given = torch.as_tensor(np.asarray(given, dtype=float))
    if given.shape != (6,):
        return (f"as one head: one head has all six value features, so the context has six "
                f"numbers; yours has the shape {tuple(given.shape)}.")
    context, weights = by_hand.verb(W, "dog bites man", 1)
    if torch.allclose(given, context, atol=0.02):
        return ""
    if torch.allclose(given, by_hand.verb(W, "dog bites man", 2)[0], atol=0.02):
        return ("as one head: you predict that nothing changes. Two places unmixed take two sets "
                "of weights, and one head has a single set.")
    if torch.allclose(given, context / weights.max(), atol=0.02):
        return "as one head: two words at full strength would need weights that sum to 2."
    return ("as one head: the scores of the two heads are now added up, for each key, and shrink "
            "by √2. Which words answer loudly now, and what becomes of their values?")


check = Check({
    "who_bites": Exercise(_bites, (
        "What does each head have to know to find its word: which word it is, or where it stands? "
        "And what is it to bring home: the place, or the word?",
        "A score is a dot product. Let every word ask with one large number (its place will do: "
        "each word has one), and let only one place answer that number.",
        "The columns of a matrix belong to heads: 0 to 2 to head 0, 3 to 5 to head 1. Rows 0 to 2 "
        "say what the word becomes, rows 3 to 5 what its place becomes. W_v leads from the word "
        "into both heads."),
        "Each head finds its word by the place and brings home the word, so it needs both halves "
        "of the embedding. One head with the same matrices has one set of weights, and mixes."),
    "five_counts": Exercise(predictions(
        {"a": 1_048_576, "b": 1_048_576, "c": 552, "d": 8_388_608, "e": 360_448},
        {"a": {262_144: "That is one of the four matrices.", 786_432: "W_o is the fourth matrix.",
               1_050_624: "That is with the biases.", 131_072: "That is what one head has of them.",
               8_388_608: "Eight heads share the 512 features; each has 64.",
               None: "Four matrices, each from 512 to 512."},
         "b": {8_388_608: "Eight times the heads are eight times the stripes, each an eighth as "
                          "wide.", 16_384: "That is what one of the 64 heads has.",
               None: "Does the number of stripes change a matrix that is cut into stripes?"},
         "c": {576: "The words are 11 wide and the output 13: no matrix is square.",
               396: "W_o is the fourth matrix.", 528: "W_o leads from 12 to 13.",
               540: "W_o leads from 12 to 13.", 184: "That is one head: there are three.",
               601: "That is with the biases.", 539: "W_o leads from 12, not from 11.",
               None: "Three matrices from 11 to 12, and one from there to 13."},
         "d": {1_048_576: "Now each head is 512 wide, and eight of them do not fit in 512.",
               6_553_600: "W_o is larger, too: it reads what all eight heads found.",
               6_291_456: "W_o is the fourth matrix.",
               None: "How many features do eight heads of 512 have together? All four matrices "
                     "touch them."},
         "e": {98_304: "W_o is full, and you left it out.",
               131_072: "An eighth of everything? W_o is full.",
               274_432: "Each of the eight slices has small matrices of its own.",
               1_048_576: "A head that gets a slice of 64 has no use for 512 rows.",
               None: "Three times eight blocks on a diagonal, and a full W_o. How large is a "
                     "block?"}}), (
        "Write down the shapes before you multiply: three matrices (in, all heads together), and "
        "W_o (all heads together, out).",
        "The number of heads enters only where it changes how wide all heads together are. In "
        "which of the five does it?",
        "In (e), a slice of 512 / 8 features meets a small square matrix, for each head and for "
        "each of q, k and v."),
        "Only the width of all heads together counts: (d) has eight times as much, and (e) keeps "
        "an eighth of the first three matrices."),
    "thrifty": Exercise(judge, (
        "Read it as two questions. What does a head receive, before its matrices? And whose "
        "matrices does it use?",
        "To find whether a head feels a feature, change that feature and look at that head's "
        "four numbers of the context.",
        "If you hand every head the same thing to look at, heads with matrices of their own will "
        "still disagree."),
        "Each check fails when one of the bugs stands alone, so each would have found its bug "
        "without the other; and neither complains of the honest program."),
})
