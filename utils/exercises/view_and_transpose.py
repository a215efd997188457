"""The exercises of the chapter on view and transpose."""

import numpy as np
import torch

from utils import checks, sizes
from utils.attention.heads import merge_heads
from utils.exercises._check import Check, Exercise, not_attempted
from utils.exercises._judges import join_messages, parts, prediction, wrong_keys

CHECKS = "shape", "round trip", "row sums", "causality", "reference"
PASSES = {"a": (1, 1, 1, 1, 1), "b": (1, 1, 1, 1, 0), "c": (1, 1, 1, 1, 0),
          "d": (1, 1, 1, 1, 1), "e": (1, 1, 1, 0, 0)}
MARKS = {"1": 1, "True": 1, "0": 0, "False": 0}
WHY = {
    "shape": "Read the axes of the result. A shape does not say which numbers are in it.",
    "round trip": "Its merge undoes the split, whatever the split does: that is how the merge was "
                  "chosen.",
    "row sums": "Softmax comes after the split, and its rows sum to 1 for any scores.",
    "causality": {
        "b": "Without the transpose the numbers keep their order in memory: from which tokens is a "
             "later row, and where does the merge put it?",
        "e": "It transposes *before* the view. Which numbers are neighbours then, and from how "
             "many tokens are the numbers of one row?",
        None: "Every row holds a single token. So which later token could it depend on?"},
    "reference": {
        "a": "This is the split of this page.",
        "b": "From how many of the five tokens does its head 0 get numbers?",
        "c": "Which four of the dimensions 0 to 11 does its head 0 get?",
        "d": "Compare it with `by_hand`, at the top of this page.",
        "e": "Which four numbers are in the first row of its head 0?"}}


def _one_liners(table):
    if not isinstance(table, dict) or set(table) != set(PASSES):
        return wrong_keys(PASSES)
    names_of, still_open = {}, []  # {(check, why): the programs that are marked wrong}
    for name, row in table.items():
        if row is None or row is ...:
            still_open.append(name)
            continue
        row = list(row) if isinstance(row, str) else np.asarray(row, dtype=object).tolist()
        if len(row) != len(CHECKS):
            return f"{name}: five checks need five marks; yours has {len(row)}."
        for what, mark, right in zip(CHECKS, row, PASSES[name], strict=True):
            if not_attempted(mark):
                still_open.append(f"{what} of {name}")
            elif str(mark) not in MARKS:
                return f"{name}: {mark!r} is neither 1 (it survives) nor 0 (it is caught)."
            elif MARKS[str(mark)] != right:
                why = WHY[what]
                if isinstance(why, dict):
                    why = why.get(name, why.get(None))
                names_of.setdefault((what, why), []).append(name)
    lines = [f"{what} of {', '.join(names)} is wrong. {why}"
             for (what, why), names in names_of.items()]
    if still_open:
        lines.append(f"Still open: {', '.join(still_open)}.")
    elif lines:
        lines.insert(0, f"{25 - sum(map(len, names_of.values()))} of 25 marks are right.")
    return join_messages(lines)


def _lay_out(lay_out):
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


ORDERS = {
    "": "qvk",
    "The weights are unchanged, so the right module would take for k what your colleague's module "
    "takes for v.": "qkv",
    "The queries must stay where they are.": "kqv",
    "Both modules take the first block for q.": "vkq",
    "Only two of the three blocks change places.": "kvq",
    "All three blocks have moved, but only two change places.": "vqk"}
UNKNOWN = ("These are not three whole blocks in some order: split packed into three, and join the "
           "parts in another order.")


def _translate(translate):
    messages = {}
    rng = np.random.default_rng(0)
    for name, shape in (("weight", (36, 11)), ("bias", (36,)), ("wide", (48, 11))):
        packed = rng.standard_normal(shape)
        blocks = dict(zip("qkv", np.split(packed, 3), strict=True))  # of the right module
        got = checks.to_numpy(translate(torch.as_tensor(packed.copy())))
        if got.shape != shape:
            return f"For {shape} it returns {got.shape}, but only the order should change."
        messages[name] = UNKNOWN
        for message, order in ORDERS.items():
            if np.array_equal(got, np.concatenate([blocks[side] for side in order])):
                messages[name] = message
                break
    if messages["wide"] and not messages["weight"] and not messages["bias"]:
        return "It is right for d_model = 12 and wrong for 16: how many rows has a block?"
    if messages["weight"] == UNKNOWN and not messages["bias"]:
        return ("The bias (36,) is right, the weight (36, 11) is not: nn.Linear stores (out, in), "
                "so along which axis do the three blocks follow each other?")
    return messages["weight"] or messages["bias"]


STRIDES_ONLY = "A transpose exchanges two strides, and moves no numbers."
check = Check({
    "one_liners": Exercise(_one_liners, (
        "Three of the five columns are the same for all rows. Which checks pass for any numbers of "
        "the right shape?",
        "For the last two columns use numbers that are their own address, as in `split` and "
        "`torn`: a number divided by 12 gives its token, and the remainder its dimension.",
        "Causality holds if no number in a row comes from a token after the row's position in the "
        "output. The reference holds if head 0 has the dimensions 0 to 3 of every token."),
        "Shape, round trip and row sums catch no bug, causality one of three; (b) and (c) pass "
        "until you compare values."),
    "copies": Exercise(parts({
        "view": prediction(False, "It splits an axis: each part gets a stride, and no number "
                                  "moves."),
        "transpose in": prediction(False, STRIDES_ONLY),
        "transpose out": prediction(False, STRIDES_ONLY),
        "reshape": prediction(True, "Remember that `view` raised an error on `fresh`."),
        "lay_out": _lay_out}), (
        "Two of the operations only ever change strides. The others do so only if suitable strides "
        "exist.",
        "`merge_heads` reads token by token, and within a token head by head. Which order of the "
        "axes in memory, slowest first, is that?",
        "To change the order in memory: bring the axes into that order, call contiguous, and bring "
        "the axes back."),
        "Only joining axes may have to move numbers, and only if they are not in that order in "
        "memory: with (b, i, h, d) in memory, merging copies nothing."),
    "stripes": Exercise(parts({
        "shape": prediction(False, "k and v have equally many dimensions."),
        "row sums": prediction(False, "The rows of softmax sum to 1 for any scores."),
        "causality": prediction(False, "The mask acts on the scores, after any projection."),
        "training": prediction(False, "All blocks start at random. If you exchange two of them, "
                                      "which program do you get?"),
        "reference": prediction(True, "With copied parameters, one module takes for k what the "
                                      "other takes for v."),
        "translate": _translate}), (
        "Exchange two row blocks in the parameters of the right module: what does it compute now?",
        "If each program can be turned into the other by renaming its random parameters, can a "
        "training run from scratch prefer one?",
        "The row blocks are below each other, three of d_model rows; .chunk(3) splits them, and "
        "torch.cat joins them."),
        "Such a convention is invisible until parameters are loaded from another program."),
})
