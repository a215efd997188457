"""The exercises of the chapter on the decoder's mask."""

import numpy as np

from .. import checks, masks
from . import _decoder_mask_write
from ._check import Check, Exercise
from ._judges import (
    each_prediction,
    parts,
    predictions,
)

AHEAD = predictions({"running_mean": False, "batch_norm": True, "over_queries": True,
                     "counting": True, "jumps": "counting"}, {
    "running_mean": "Which positions has cumsum added up at position i?",
    "batch_norm": "Over which axes does batch norm take its mean, and do they include later "
                  "positions?",
    "over_queries": "The weights above the diagonal are zero. But by what is a weight of position "
                    "0 divided?",
    "counting": "Over which axis does it count?",
    "jumps": {"running_mean": "This one does not depend on later tokens.",
              "batch_norm": "A mean changes a little if a number changes a little, so its "
                            "derivative is not zero.",
              "over_queries": "exp has a derivative, and so has a quotient.",
              None: "Answer with the name of one of the four functions."}})
MASKED_ROWS = each_prediction({"empty": 3, "ours": "bias", "filled": "all"}, {
    "empty": {6: "The other example has no padding, so none of its rows is fully masked.",
              4: "Those are the tokens. Position 3 of example 1 is a token and attends to itself.",
              0: "To which positions may position 0 of example 1 attend, without padding and later "
                 "positions?",
              1: "There is no position before position 0. And which one is before position 1?",
              None: "Count the positions that may attend neither to themselves nor to any position "
                    "before them."},
    "ours": {"zeros": "The *context* is zeros. What does the decoder still add to it?",
             "average": "That is the result with −1e9. Our decoder gives such a query a context of "
                        "zeros.",
             None: "Answer zeros, bias or average."},
    "filled": {"words": "The words are later positions, so they are masked too. Does any score in "
                        "that row exceed the others?",
               "past": "Padding and later positions are both masked, so all scores are −1e9.",
               None: "Answer words, past or all."}})


def _keep(left):
    """Judge left(lengths, n)."""
    lengths, n = np.array([6, 4, 1, 0]), 6
    keep = checks.to_numpy(left(lengths.copy(), n))
    if keep.shape != (4, 1, n, n):
        heads = "; the axis of heads is missing" if keep.shape == (4, n, n) else ""
        return f"for 4 lengths and n = 6 it must be (4, 1, 6, 6), not {keep.shape}{heads}."
    if keep.dtype != bool:
        return f"a mask must be bool, not {keep.dtype}."
    for known, message in _known_masks(lengths, n):
        if (keep == known).all():
            return message
    right = next(_known_masks(lengths, n))[0]
    b, _, i, j = np.argwhere(keep != right)[0]
    may = "may" if right[b, 0, i, j] else "may not"
    return (f"with length {lengths[b]} of {n}, position {i} {may} attend to position {j}; yours "
            "says the opposite.")


def _known_masks(lengths, n):
    """Yield (keep, message), the right mask first."""
    is_token = np.arange(n) >= n - lengths[:, None]           # (b, j)
    keys, queries, past = is_token[:, None, None], is_token[:, None, :, None], masks.causal(n)
    from_length = (np.arange(n) >= lengths[:, None])[:, None, None]
    without_first = (np.arange(n) > n - lengths[:, None])[:, None, None]
    yield keys & past, ""
    yield np.broadcast_to(keys, (len(lengths), 1, n, n)), "later positions are not masked."
    yield keys | past, "| allows what either mask allows. Here both must allow it: use &."
    yield (masks.decoder(lengths, n),
           "that is padding on the right. With padding on the left, the tokens are at the end.")
    yield (queries & past,
           "it masks rows, not columns: padding may be a query, but no query may attend *to* it.")
    yield without_first & past, "the first token of every sequence is masked, too."
    yield (from_length & past, "each sequence begins at the position of its length, but longer "
                               "ones must begin *earlier*.")
    yield ~(keys & past), "True must mean that the query may attend: yours is inverted."
    yield keys & past.T, "every position attends to later ones: the triangle is transposed."


check = Check({
    "who_looks_ahead": Exercise(AHEAD, (
        "The mask acts on columns of the scores. Look for sums, means and counts over *positions*: "
        "before the attention, after it, and in the softmax.",
        "Imagine that the token at position 6 changes. Which numbers of position 0 are computed "
        "from it?",
        "A derivative is the effect of a tiny step. For which of the functions is that zero, "
        "although a large step has an effect?"),
        "A count is piecewise constant, so its derivative is zero and the Jacobian misses it. A "
        "right mask is not enough: check that the whole program does not depend on later tokens."),
    "let_it_write": Exercise(_decoder_mask_write.judge, (
        "Each step has three parts: call the model, choose a token, append it. What does the model "
        "get in the second step?",
        "logits[:, i] are for token i + 1. Which i is for the token that does not exist yet? "
        "argmax(dim=-1) chooses one letter for each example.",
        "torch.cat([tokens, following[:, None]], dim=1) appends a token (b,) to tokens (b, i)."),
        "This loop writes with every decoder, however large. A cache of keys and values makes it "
        "faster, and changes no token."),
    "nothing_to_the_left": Exercise(parts({"keep": _keep} | MASKED_ROWS), (
        "Where do the tokens of example b start, if they all end at n?",
        "A condition on keys is (b, j); with an axis for heads and one for queries it is "
        "(b, 1, 1, j), and & joins it with the causal mask.",
        "The first positions of example 1 have padding behind them and tokens ahead. To which of "
        "the two may they attend?"),
        "With padding on the left, fully masked rows are normal: decide what they should return."),
})
