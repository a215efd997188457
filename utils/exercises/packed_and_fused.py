"""The exercises of the chapter on packed projections and fused attention."""

import numpy as np
import torch

from utils import checks
from utils.exercises._check import Check, Exercise
from utils.exercises._judges import parts, prediction

P = 0.25   # the probability that `drop` is called with


def _drop(drop):
    """Judge drop(weights, p, training), a dropout of attention weights."""
    torch.manual_seed(0)
    weights = torch.randn(2, 3, 50, 70, dtype=torch.float64).softmax(dim=-1)
    given = weights.clone()
    evaluated, dropped, again = (drop(weights, P, False), drop(weights, P, True),
                                 drop(weights, P, True))
    for result in (evaluated, dropped, again):
        if not torch.is_tensor(result) or result.shape != weights.shape:
            shape = tuple(result.shape) if torch.is_tensor(result) else type(result).__name__
            return f"For weights (2, 3, 50, 70) it returns {shape}; expected a tensor like them."
    if not torch.equal(weights, given):
        return "It changes the weights that it is given; return a new tensor."
    return (_in_evaluation(evaluated / weights) or _which_are_dropped(dropped, again)
            or _in_training(dropped, weights)
            or ("" if torch.equal(drop(weights, 0.0, True), weights)
                else "With p = 0 nothing is dropped, so the weights must come back unchanged."))


def _in_evaluation(ratio):
    """Return what is wrong with weights / given weights outside training, "" for nothing."""
    if torch.allclose(ratio, torch.ones_like(ratio)):
        return ""
    if (ratio == 0).any():
        return "With training=False some weights are 0, but in evaluation nothing is dropped."
    if torch.allclose(ratio, torch.full_like(ratio, 1 - P)):
        return ("With training=False it multiplies by 1 - p. Here the division by 1 - p in "
                "training keeps the mean, so in evaluation the weights stay as they are.")
    return "With training=False the weights must come back unchanged."


def _in_training(dropped, weights):
    """Return what is wrong with the size or the number of the weights that are left, or ""."""
    left = dropped != 0
    share = 1 - left.double().mean().item()
    if abs(share - P) > 0.02:
        message = f"With p = {P}, {share:.0%} of the weights are 0."
        return message + (" Is it the kept share that is p?" if abs(share - 1 + P) < 0.02 else "")
    ratio = (dropped / weights)[left]
    if torch.allclose(ratio, torch.full_like(ratio, 1 / (1 - P))):
        return ""
    if torch.allclose(dropped.sum(dim=-1), torch.ones(2, 3, 50, dtype=torch.float64)):
        return ("Each row is divided by its sum. Dropout divides by 1 - p, whatever is left, and "
                "the rows no longer sum to 1.")
    if torch.allclose(ratio, torch.ones_like(ratio)):
        return (f"The weights that are left keep their size, so the mean falls to {1 - P:.0%}. By "
                "what must they be divided?")
    return f"A weight that is left must be 1 / (1 - p) = {1 / (1 - P):.2f} times what it was."


def _which_are_dropped(dropped, again):
    """Return a message if nothing is dropped, or if the draws depend on each other, else ""."""
    zero = dropped == 0
    if not zero.any():
        return "With training=True no weight is 0."
    if torch.equal(dropped, again):
        return "Two calls drop the same weights. Does it set a seed?"
    alike = [name for axis, name in enumerate(("examples", "heads", "queries", "keys"))
             if torch.equal(zero, zero.narrow(axis, 0, 1).expand_as(zero))]
    if not alike:
        return ""
    names = " and ".join([part for part in (", ".join(alike[:-1]), alike[-1]) if part])
    return f"All {names} lose the same weights: draw one random number for each weight."


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
    "drop": Exercise(_drop, (
        "torch.rand_like(weights) draws one number from 0 to 1 for each weight. How likely is it "
        "to be at least p?",
        "In training: multiply by a tensor of 0 and 1, then divide by 1 - p. In evaluation: return "
        "the weights."),
        "On average each weight keeps its size, and in evaluation nothing is random."),
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
