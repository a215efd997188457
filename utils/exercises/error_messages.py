"""The exercises of the page on error messages."""

import torch

from .. import sizes
from ..attention.heads import merge_heads
from ._check import Check, Exercise
from ._judges import predictions

RAISES = {"q @ k": True, "flat @ k.mT": False, "torch.einsum('bhid,bhid->bhi', q, k)": False,
          "scores.masked_fill(~each, 0)": False, "scores[~keep]": True,
          "torch.cat([k, q], dim=1)": False}
WHY = dict.fromkeys(RAISES, "Which two sizes did not agree in the message above, and do they now?")
WHY |= {"q @ k": "Which axes does this product bring together, and which size has each?",
        "scores[~keep]": "keep is (b, 1, i, j). Does indexing broadcast an axis of size 1?"}


def _laid_out(lay_out):
    """Judge a program that lays (b, h, i, d) out in memory as merge_heads needs it."""
    context = torch.as_tensor(sizes.qkv(3)[0])  # (b, h, i, d)
    got = lay_out(context.clone())
    if not isinstance(got, torch.Tensor):
        return f"It returns {type(got).__name__}, not a tensor."
    if got.shape != context.shape:
        return (f"It returns {tuple(got.shape)} for {tuple(context.shape)}. The axes must stay as "
                "they are: only the order in memory should change.")
    if not torch.equal(got, context):
        return "Some elements are no longer at their index: a view or reshape mixed them up."
    if merge_heads(got).data_ptr() == got.data_ptr():
        return ""
    if got.stride() == context.stride():
        return (f"Its strides are still {got.stride()}, so the numbers are still in the order of "
                "the axes. Which order does merge_heads need?")
    return (f"Its strides are {got.stride()}. The twelve numbers of a token must be next to each "
            "other, head by head: how large must the stride from one head to the next be?")


check = Check({
    "goes_away": Exercise(_laid_out, (
        "view works if the two axes that it merges are neighbours in memory. Print q.stride() and "
        "q.transpose(1, 2).stride().",
        "In which order must the elements be in memory, so that h and d of one token are "
        "neighbours?",
        "contiguous() copies a tensor into the order of its axes. Call it between two transposes."),
        "Whether view raises depends on the order in memory, which the shape does not show."),
    "equal_sizes": Exercise(predictions(RAISES, WHY), (
        "Draw new q and k by sizes.qkv(batch=3, n_q=3, n_k=3), and make scores, flat, each and "
        "keep from them.",
        "each is (b, i, j), keep is (b, 1, i, j), and flat is (b, i, h, d). Write the sizes below "
        "the letters."),
        "Four wrong lines run without an error as soon as sizes are equal, so test with sizes "
        "that differ."),
})
