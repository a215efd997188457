"""The exercises of the chapter on what attention costs."""

import torch

from ..measure.counters import peak_bytes
from ._check import Check, Exercise
from ._judges import doctor_report, predictions

CROSSINGS = predictions(
    {"causal": 2048, "block": 3072, "grouped": 640, "one more token": 1024},
    {"causal": {
        1024: "That is for all pairs. Only half of the work for the attention matrices is left.",
        512: "The attention matrices need less work now: do they reach the rest earlier or later?",
        None: "The attention matrices need 2 n² d_model now; the projections need the same as "
              "before."},
     "block": {
         1024: "That is attention alone. How many operations does the feed-forward layer need for "
               "a token?",
         2048: "There are two matrices of d_model by 4 d_model, each used once for a token, and "
               "each multiplication has an addition: 16 n d_model².",
         1536: "The feed-forward layer needs no n², so the n² part reaches the rest later.",
         4608: "That is for three matrices of that size.",
         6: "That is in units of d_model. How many tokens is it?",
         24: "Compare 24 n d_model² with 4 n² d_model.",
         None: "The projections need 8 n d_model², and the feed-forward layer 2 · 2 · 4 n "
               "d_model²."},
     "grouped": {
         1024: "That is for as many heads of k and v as of q, but two matrices are smaller now.",
         256: "Only W_k and W_v are smaller, not W_q and W_o.",
         768: "There are two heads of k and v, not four: W_k and W_v are a quarter as wide.",
         1280: "The projections need fewer operations: do the attention matrices reach them "
               "earlier or later?",
         None: "q and the output need 4 n d_model² together. And k and v, which are a quarter as "
               "wide?"},
     "one more token": {
         512: "One query needs 8 d_model² for its projections, and 2 d_model operations for each "
              "score. And for the context?",
         2048: "Scores and context both need 2 n d_model operations.",
         192: "That is the length at which memory turns quadratic.",
         32: "One query needs no n² at all. With what must you compare 8 d_model²?",
         None: "How many operations does one query need for its four projections, and for its two "
               "products with the cache?"}},
    tolerance=0.001)


def _one_head(program):
    """Judge program(q, k, v, keep): its result, and how many attention matrices it holds."""
    four, eight = (_matrices_held(program, n_heads) for n_heads in (4, 8))
    if isinstance(four, str):
        return four
    report = doctor_report(program, framework="torch")
    if report:
        return report
    for_each_head = (eight - four) / 4
    if for_each_head > 1.5:
        return (f"The result is right, but every head adds {for_each_head:.0f} attention matrices "
                "to the peak: those of all heads are in memory at the same time.")
    if for_each_head > 0.5:
        return ("The result is right, and the heads are computed one by one; but each adds an "
                "attention matrix to the peak. Which variable still holds it when the next head is "
                "computed?")
    if eight > 6:
        return (f"The result is right, but at the peak {eight:.0f} attention matrices are in "
                "memory, however many heads there are. One head needs two, and a few more for its "
                "mask.")
    return ""


def _matrices_held(program, n_heads):
    """Return how many attention matrices of one head are in memory at the peak.

    For a result of the wrong form, return a message instead.
    """
    generator = torch.Generator().manual_seed(n_heads)
    q, k, v = (torch.randn(2, n_heads, n, 3, generator=generator)
               for n in (120, 160, 160))
    found = []

    def run(keep=None):
        found[:] = [program(q, k, v, keep)]

    keep = torch.rand(2, 1, 120, 160, generator=generator) < 0.9
    most = max(peak_bytes(run, q, k, v), peak_bytes(lambda: run(keep), q, k, v, keep))
    context = found[0]
    if isinstance(context, list | tuple) and any(map(torch.is_tensor, context)):
        return ("It must return one tensor, the context. If it returns weights, too, the attention "
                "matrices of all heads stay in memory.")
    if not torch.is_tensor(context):
        return f"It must return a tensor, the context, not {type(context).__name__}."
    if context.shape != (2, n_heads, 120, 3):
        return (f"For 2 examples, {n_heads} heads, 120 queries and d_head 3 the context is "
                f"(2, {n_heads}, 120, 3); yours is {tuple(context.shape)}.")
    return most / (4 * 2 * 120 * 160)


check = Check({
    "one_head": Exercise(_one_head, (
        "Loop over the heads, and call `attention` for one at a time: q[:, h] is (b, i, d).",
        "keep is None, or has an axis of heads, of length 1 or h: which part of it does head h "
        "need?",
        "Keep only the context of each head in a list, and torch.stack them at the end."),
        "However many heads there are, the attention matrices of one are in memory. So memory "
        "turns quadratic at a greater length, which grows with the number of heads; operations and "
        "traffic are the same."),
    "crossings": Exercise(CROSSINGS, (
        "Write down the operations that grow with n, and those that grow with n²; then divide.",
        "A feed-forward layer multiplies each token by d_model × 4 d_model and by 4 d_model × "
        "d_model: 16 d_model² operations a token, and no n².",
        "While decoding there is one query: its projections need 8 d_model² operations, its "
        "products with n keys and n values 4 n d_model."),
        "All of them are multiples of d_model: d_model decides, not the number of heads. In a "
        "whole block, the n² part needs 6 d_model tokens to reach the rest."),
})
