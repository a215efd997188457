"""The exercises of the page on error messages."""


from utils.exercises._check import Check, Exercise
from utils.exercises._judges import predictions
from utils.exercises.view_and_transpose import laid_out

RAISES = {"q @ k": True, "flat @ k.mT": False, "torch.einsum('bhid,bhid->bhi', q, k)": False,
          "scores.masked_fill(~each, 0)": False, "scores[~keep]": True,
          "torch.cat([k, q], dim=1)": False}
WHY = dict.fromkeys(RAISES, "Which two sizes did not agree in the message above, and do they now?")
WHY |= {"q @ k": "Which axes does this product bring together, and which size has each?",
        "scores[~keep]": "keep is (b, 1, i, j). Does indexing broadcast an axis of size 1?"}

check = Check({
    "goes_away": Exercise(laid_out, (
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
