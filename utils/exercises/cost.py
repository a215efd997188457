"""The exercises of the chapter on what attention costs."""

import torch

from utils.exercises._check import Check, Exercise, examined, predictions
from utils.measure.counters import peak_bytes

CROSSINGS = predictions(
    {"causal": 2048, "block": 3072, "grouped": 640, "one more word": 1024},
    {"causal": {
        1024: "That is with all pairs. Half of the tables' work is left.",
        512: "The tables have become cheaper: do they catch up earlier or later?",
        None: "2 n² d_model is left for the tables; the rows cost what they did."},
     "block": {
         1024: "That is attention alone. How many operations has the feed-forward layer a word?",
         2048: "Two matrices of d_model by 4 d_model, each used once a word, and a multiplication "
               "comes with an addition: 16 n d_model².",
         1536: "The feed-forward layer has rows only: they become dearer, so later.",
         4608: "That is with three matrices of that width.",
         6: "In words: 6 d_model of how many?", 24: "n words: 24 n d_model² against 4 n² d_model.",
         None: "8 n d_model² of the projections, and 2 · 2 · 4 n d_model² more."},
     "grouped": {
         1024: "That is with as many heads of k and v as of q: the two matrices have shrunk.",
         256: "Only W_k and W_v have shrunk, not W_q and W_o.",
         768: "Two heads of k and v, not four: W_k and W_v are a quarter as wide.",
         1280: "Fewer operations for the rows: do the tables catch up earlier or later?",
         None: "q and the output cost 4 n d_model² together; k and v, a quarter as wide?"},
     "one more word": {
         512: "One query: 8 d_model² for its rows. Its scores: one row of 2 d_model operations a "
              "word. And the context?",
         2048: "Scores and context: each has 2 n d_model operations.",
         192: "That is where memory turns.",
         32: "One query needs no n² at all. 8 d_model² against what?",
         None: "With one query, how much do its four projections cost, and its two products with "
               "what is in the cache?"}},
    tolerance=0.001)
ROOFS = predictions(
    {"knee": 20.0, "share": 0.53, "d_head": 120, "faster": 1.875, "float16": "arithmetic"},
    {"knee": {
        0.05: "Upside down: operations per byte.", 2e12: "Operations per byte, not per second.",
        None: "Where do 2 · 10¹² a second and 10¹¹ bytes a second give the same?"},
     "share": {
         10.67: "That is the intensity. What does it allow, as a share of 2 TFLOP/s?",
         53.3: "As a share of 1.", 1.067: "That is in TFLOP/s. As a share of the 2?",
         0.13: "Four bytes a number are counted in d_head / 6 already.",
         1.0: "Left of the knee not all can be reached.",
         None: "Intensity d_head / 6, so at most that many times 10¹¹ operations a second."},
     "d_head": {
         20: "That is the knee, in operations per byte. Which d_head has it?",
         3: "d_head / 6 is the intensity: it grows with d_head.",
         64: "At 64 they are left of the knee.",
         None: "Which d_head has an intensity at the knee?"},
     "faster": {
         0.53: "That is how fast it is now, as a share.",
         20: "Nothing can be faster than 2 TFLOP/s: how far is it to there?",
         6.0: "Traffic falls by more than that, but then arithmetic is the limit.",
         None: "From what memory allows now to what arithmetic allows."},
     "float16": {
         "memory": "Half the bytes: twice the intensity. And where is the knee?",
         None: '"memory" or "arithmetic".'}},
    tolerance=0.01)


def _one_table(program):
    """Return what is wrong with program(q, k, v, keep), "" if nothing is."""
    held = {n_heads: _tables(program, n_heads) for n_heads in (4, 8)}
    problem = next((text for text in held.values() if isinstance(text, str)), "")
    if problem:
        return problem
    if said := examined(program, framework="torch"):
        return said
    each = (held[8] - held[4]) / 4
    if each > 1.5:
        return (f"Right, but every head adds {each:.0f} tables to the peak: those of all heads are "
                "there at the same time.")
    if each > 0.5:
        return ("Right, and no two heads compute at the same time; but each adds a table to the "
                "peak. Who still holds on to it when the next head comes?")
    if held[8] > 6:
        return (f"Right, but {held[8]:.0f} tables are held at the peak, however many heads there "
                "are. One head needs two, and a few more for its mask.")
    return ""


def _tables(program, n_heads):
    """Return how many tables of one head a program holds at its peak, or what is wrong with it."""
    generator = torch.Generator().manual_seed(n_heads)
    q, k, v = (torch.randn(2, n_heads, n, 3, generator=generator)
               for n in (120, 160, 160))
    found = []

    def run(keep=None):
        found[:] = [program(q, k, v, keep)]

    keep = torch.rand(2, 1, 120, 160, generator=generator) < 0.9
    most = max(peak_bytes(run, q, k, v), peak_bytes(lambda: run(keep), q, k, v, keep))
    context = found[0]
    if isinstance(context, list | tuple):
        return ("The context alone is asked for: whoever returns weights holds the tables of all "
                "heads." if context and all(map(torch.is_tensor, context))
                else f"A tensor is asked for, the context; got a {type(context).__name__}.")
    if not torch.is_tensor(context):
        return f"A tensor is asked for, the context; got a {type(context).__name__}."
    if context.shape != (2, n_heads, 120, 3):
        return (f"For 2 examples, {n_heads} heads, 120 queries and width 3 the context is "
                f"(2, {n_heads}, 120, 3); yours is {tuple(context.shape)}.")
    return most / (4 * 2 * 120 * 160)


check = Check({
    "one_table": Exercise(_one_table, (
        "Loop over the heads, and call `attention` for one at a time: q[:, h] is (b, i, d).",
        "keep is None, or has an axis of heads, of length 1 or h: which part of it is head h's?",
        "Keep the context of each head in a list, nothing else, and torch.stack them at the end."),
        "However many heads there are, the tables of one are held: memory turns quadratic later, "
        "at a length that grows with the number of heads, and neither operations nor traffic have "
        "changed."),
    "crossings": Exercise(CROSSINGS, (
        "Write down the rows' operations, with n once, and the tables', with n twice; then divide.",
        "A feed-forward layer multiplies each word by d_model × 4 d_model and by 4 d_model × "
        "d_model: 16 d_model² operations a word, and no tables.",
        "While decoding there is one query: the rows cost 8 d_model², its products with n keys and "
        "n values 4 n d_model."),
        "All of them are multiples of d_model: the width decides, not the heads. In a whole block "
        "the tables have six widths to go."),
    "under_the_roof": Exercise(ROOFS, (
        "The knee is where both roofs meet: operations a second divided by bytes a second.",
        "Tables have d_head / 6 = 10.7 operations a byte; the memory brings 10¹¹ bytes a second.",
        "What is left of the knee is at intensity / knee of the upper roof. Fewer bytes a number "
        "mean more operations a byte."),
        "Left of the knee only fewer bytes help: narrower numbers, or tables that never leave the "
        "cache. Right of it only fewer operations do."),
})
