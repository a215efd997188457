"""The exercises of the chapter on a multi-head layer."""

import numpy as np
import torch
from torch import nn

from utils import checks
from utils.exercises._check import Check, Exercise
from utils.exercises._judges import doctor_report, parts, prediction


def _empty_cell(program):
    if not (isinstance(program, type) and issubclass(program, nn.Module)):
        return "Hand over the class itself, a subclass of nn.Module, without making a layer of it."
    return doctor_report(program, "layer", masks="padding", framework="torch")


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


check = Check({
    "empty_cell": Exercise(_empty_cell, (
        "In `__init__`: `super().__init__()`, the number of heads, and four nn.Linear(d_model, "
        "d_model). In `forward`: project, split, scores, mask, softmax, context, merge, project.",
        "split: (b, i, e) to (b, i, h, d) to (b, h, i, d). merge: the same two steps backwards.",
        "The scores are divided by the root of d_head. Before softmax, those of keys that are not "
        "kept become -inf."),
        "You have written multi-head attention from an empty cell, and the doctor finds nothing."),
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
