"""The exercises of the chapter on the decoder's mask."""

import numpy as np

from utils import checks, masks
from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, predictions, untouched
from utils.exercises._noise import noise

AHEAD = predictions({"a": False, "b": True, "c": True, "d": True, "jumps": "d"}, {
    "a": "What has cumsum added up when it is at place i?",
    "b": "Over which axes does batch norm take its mean, and are later places among them?",
    "c": "The weights above the diagonal are zero. But what is a weight of place 0 divided by?",
    "d": "Over which axis does it count?",
    "jumps": {"a": "That one does not hear the future.",
              "b": "A mean moves a little when a number moves a little: it has a slope.",
              "c": "exp has a slope, and so has a quotient.", None: "One of a, b, c, d."}})
EMPTY = predictions({"empty": 3, "ours": "bias", "filled": "all"}, {
    "empty": {6: "Are the rows of the other example empty, too? It has no padding.",
              4: "Those are the words. Place 3 of example 1 is a word and sees itself.",
              0: "Whom may place 0 of example 1 attend to: not the future, and not padding.",
              1: "Place 0 has no other place before it. And place 1: what stands before it?",
              None: "Count places that have neither themselves nor anything before them to see."},
    "ours": {"zeros": "The *context* is zeros. What still comes after it?",
             "average": "That is what −1e9 makes of it. Ours gives such a query a context "
                        "of zeros.",
             None: "One of zeros, bias, average."},
    "filled": {"words": "The words are its future, forbidden too. So is there a score in that row "
                        "that is larger than the others?",
               "past": "Its past is padding and its future is the future: all of it −1e9.",
               None: "One of words, past, all."}})


def _nothing(given):
    if not isinstance(given, dict) or "keep" not in given:
        return "The answer is a dict with the keys 'keep', 'empty', 'ours', 'filled'."
    rest = dict(given)
    left = rest.pop("keep")
    told = "Still open: keep." if untouched(left) else _left(left)
    return listed([part for part in (EMPTY(rest), told) if part])


def _left(left):
    """Return what is wrong with left(lengths, n), "" if nothing is."""
    lengths, n = np.array([6, 4, 1, 0]), 6
    keep = checks.to_numpy(left(lengths.copy(), n))
    if keep.shape != (4, 1, n, n):
        heads = "; the axis of heads is missing" if keep.shape == (4, n, n) else ""
        return f"keep: for 4 lengths and n = 6 it is (4, 1, 6, 6), not {keep.shape}{heads}."
    if keep.dtype != bool:
        return f"keep: a mask is bool, not {keep.dtype}."
    right = next(_lefts(lengths, n))[0]
    for other, why in _lefts(lengths, n):
        if (keep == other).all():
            return why and f"keep: {why}"
    b, _, i, j = np.argwhere(keep != right)[0]
    return (f"keep: with length {lengths[b]} of {n}, place {i} "
            f"{'may not' if keep[b, 0, i, j] else 'may'} attend to place {j}; yours says the "
            "opposite.")


def _lefts(lengths, n):
    """Yield the right keep, and wrong ones, with what is wrong."""
    words = np.arange(n) >= n - lengths[:, None]           # (b, j)
    keys, queries, past = words[:, None, None], words[:, None, :, None], masks.causal(n)
    begin = (np.arange(n) >= lengths[:, None])[:, None, None]
    late = (np.arange(n) > n - lengths[:, None])[:, None, None]
    yield keys & past, ""
    yield np.broadcast_to(keys, (len(lengths), 1, n, n)), "nothing hides the future."
    yield keys | past, "| allows what either allows. Here both forbid: join them by &."
    yield (masks.decoder(lengths, n),
           "that is padding on the right. On the left, the words stand at the end.")
    yield (queries & past,
           "it hides rows, not columns: padding may ask, but nobody may look *at* it.")
    yield late & past, "one off: the first word is hidden, too."
    yield (begin & past,
           "each sentence begins where its length says; but longer ones begin *earlier*.")
    yield ~(keys & past), "True = may attend: yours is upside down."
    yield keys & past.T, "it looks ahead: the triangle stands on its head."


check = Check({
    "who_looks_ahead": Exercise(AHEAD, (
        "The mask hides columns of the scores. Look for sums, means and counts that run over "
        "*places*: before the attention, after it, and in the softmax.",
        "Rewrite place 6 in your mind. Which numbers of place 0 are computed with it?",
        "A derivative asks what a tiny step changes. For which of the functions is that nothing, "
        "although a large step changes something?"),
        "A count jumps and has no slope, so no derivative sees it. And a right mask is one line: "
        "only of a whole program can one say that it does not look ahead."),
    "noise": Exercise(noise, (
        "leaks asks the program, noise asks the script. In which of the two is the loader?",
        "An honest script ends at ln V, for the V that you chose, give or take the noise of its "
        "batches. So compare the average of many late steps, and leave a margin.",
        "One place of eight that copies its answer lowers the loss by ln V / 8 at most. Choose V "
        "so large that this stands out from the noise, and so small that 150 steps can learn it."),
        "Enough letters, the end of training, an average, a margin: then nobody gets below ln V "
        "unseen, wherever in the script the leak is."),
    "nothing_to_the_left": Exercise(_nothing, (
        "Where do the words of example b start, if they all end at n?",
        "A statement about keys is (b, j); with an axis for heads and one for queries it is "
        "(b, 1, 1, j), and joins the causal mask by &.",
        "The first places of example 1 have padding behind them and words ahead. In which of the "
        "two may they look?"),
        "Padding on the left makes empty rows as a rule, not by accident: decide what they get."),
})
