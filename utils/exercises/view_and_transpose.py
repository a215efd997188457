"""The exercises of the chapter on view and transpose."""

import numpy as np
import torch

from utils import checks, sizes
from utils.attention.heads import merge_heads
from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, untouched
from utils.exercises._parts import parts, value

CHECKS = "shape", "round trip", "row sums", "causality", "reference"
SURVIVES = {"a": (1, 1, 1, 1, 1), "b": (1, 1, 1, 1, 0), "c": (1, 1, 1, 1, 0),
            "d": (1, 1, 1, 1, 1), "e": (1, 1, 1, 0, 0)}
MARKS = {"1": 1, "True": 1, "0": 0, "False": 0}
WHY = {
    "shape": "Read the axes of the result. A shape does not say who moved in.",
    "round trip": "Its merge undoes it, whatever stood between: that is how the merge was chosen.",
    "row sums": "Softmax comes after the split, and sums to 1 over whatever it is given.",
    "causality": {
        "b": "Torn rows keep the order of memory: from which words is a later row, and where does "
             "the merge put it?",
        "e": "It transposes *before* it deals out. Which numbers are neighbours then, and of how "
             "many words does one row hold some?",
        None: "Every row of it holds one word. So whose future could it see?"},
    "reference": {
        "a": "This is the split of this page.",
        "b": "How many of the five words does its head 0 meet?",
        "c": "Which four of the features 0 to 11 does its head 0 get?",
        "d": "Compare it with `by_hand`, at the top of this page.",
        "e": "Which four numbers stand in the first row of its head 0?"}}


def _five(table):
    if not isinstance(table, dict) or set(table) != set(SURVIVES):
        return f"The answer is a dict with the keys {', '.join(map(repr, SURVIVES))}."
    told, open_, wrong = {}, [], 0
    for name, row in table.items():
        if row is None or row is ...:
            open_.append(name)
            continue
        row = list(row) if isinstance(row, str) else np.asarray(row, dtype=object).tolist()
        if len(row) != len(CHECKS):
            return f"{name}: five checks, five marks; yours has {len(row)}."
        for what, mark, true in zip(CHECKS, row, SURVIVES[name], strict=True):
            if untouched(mark):
                open_.append(f"{what} of {name}")
            elif str(mark) not in MARKS:
                return f"{name}: {mark!r} is neither 1 (survives) nor 0 (is caught)."
            elif MARKS[str(mark)] != true:
                why = WHY[what] if isinstance(WHY[what], str) else WHY[what].get(
                    name, WHY[what].get(None))
                told.setdefault((what, why), []).append(name)
                wrong += 1
    lines = [f"{what} of {', '.join(names)}: not so. {why}" for (what, why), names in told.items()]
    if lines and not open_:
        lines.insert(0, f"{25 - wrong} of 25 are right.")
    return listed(lines + [f"Still open: {', '.join(open_)}."] * bool(open_))


def _lay_out(lay_out):
    context = torch.as_tensor(sizes.qkv(3)[0])  # (b, h, i, d)
    got = lay_out(context.clone())
    if not isinstance(got, torch.Tensor):
        return f"It returns {type(got).__name__}, not a tensor."
    if got.shape != context.shape:
        return (f"It returns {tuple(got.shape)} for {tuple(context.shape)}. The axes stay as they "
                "are: only the memory below them is to lie otherwise.")
    if not torch.equal(got, context):
        return "Its numbers are not where they were: a view or reshape dealt them out anew."
    if merge_heads(got).data_ptr() == got.data_ptr():
        return ""
    if got.stride() == context.stride():
        return (f"Its strides are still {got.stride()}: numbers in the order of the axes, as they "
                "came. Which order would merge_heads like to find?")
    return (f"Its strides are {got.stride()}. The twelve numbers of a word must lie in a row, head "
            "by head: how far is it then from one head to the next?")


def _translate(translate):
    rng = np.random.default_rng(0)
    said = {}
    for name, shape in (("weight", (36, 11)), ("bias", (36,)), ("wide", (48, 11))):
        packed = rng.standard_normal(shape)
        q, k, v = np.split(packed, 3)  # of the honest module
        got = checks.to_numpy(translate(torch.as_tensor(packed.copy())))
        if got.shape != shape:
            return f"For {shape} it returns {got.shape}: the same stripes, in another order."
        orders = {"": (q, v, k), "As it was, the right module takes for k what your colleague "
                  "takes for v.": (q, k, v),
                  "The queries stay where they are.": (k, q, v),
                  "q is read first by both modules.": (v, k, q),
                  "Only two of the three stripes change places.": (k, v, q),
                  "All three stripes have moved; only two change places.": (v, q, k)}
        said[name] = next((why for why, order in orders.items()
                           if np.array_equal(got, np.concatenate(order))), "strange")
    if said.pop("wide") and not any(said.values()):
        return "It is right for d_model = 12 and wrong for 16: how many rows has a stripe?"
    if said == {"weight": "strange", "bias": ""}:
        return ("The bias (36,) is right, the weight (36, 11) is not: nn.Linear stores (out, in), "
                "so along which axis do the three stripes lie?")
    told = next(filter(None, said.values()), "")
    return told if told != "strange" else ("These are not three whole stripes in some order: cut "
                                           "packed in three, and put the parts together again.")


check = Check({
    "one_liners": Exercise(_five, (
        "Three of the five columns are the same for all rows. Which checks cannot fail, as long "
        "as something of the right shape comes back?",
        "For the last two columns give each number its address, as in `split` and `torn`: divided "
        "by 12 it tells its word, and the remainder tells its feature.",
        "What causality asks of a row is that no number in it comes from a later word than the "
        "row's place in the output. What the reference asks is that head 0 has features 0 to 3 of "
        "every word."),
        "Shape, round trip and row sums catch nobody, causality one of three; (b) and (c) pass "
        "for right until somebody compares values."),
    "copies": Exercise(parts({
        "view": value(False, "It splits an axis: each part gets a stride, and no number moves."),
        "transpose in": value(False, "A transpose exchanges two strides, and no numbers."),
        "transpose out": value(False, "A transpose exchanges two strides, and no numbers."),
        "reshape": value(True, "Remember what `view` said to the same wish, on `fresh`."),
        "lay_out": _lay_out}), (
        "Two of the operations only ever rewrite strides. The others do so as long as the strides "
        "they would need exist.",
        "`merge_heads` wants to read word by word, and in a word head by head. Which axis order "
        "of the memory, slowest first, is that?",
        "To lay numbers out in another order: bring the axes into that order, make it contiguous, "
        "and bring the axes back."),
        "Only joining axes may have to move numbers, and only if they do not lie in that order "
        "already: (b, i, h, d) in memory merges for nothing."),
    "stripes": Exercise(parts({
        "shape": value(False, "k and v are equally wide."),
        "row sums": value(False, "Softmax sums to 1 over whatever scores it is given."),
        "causality": value(False, "The mask acts on the scores, after any projection."),
        "training": value(False, "The stripes start as random as each other. Exchange two of them, "
                                 "and which program have you got?"),
        "reference": value(True, "On copied weights a stripe is the k or the v of somebody."),
        "translate": _translate}), (
        "Exchange two stripes in the weights of the honest module: what does it compute now?",
        "If each program can be turned into the other by renaming its random weights, can a "
        "training run from scratch prefer one?",
        "The stripes stand one below the other, three of d_model rows; .chunk(3) takes them apart, "
        "torch.cat puts them together."),
        "A convention is invisible to everything but whoever brings weights from elsewhere."),
})
