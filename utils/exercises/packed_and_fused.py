"""The exercises of the chapter on packed projections and fused attention."""

from itertools import permutations

import torch

from utils.checks import difference
from utils.exercises._check import Check, Exercise
from utils.exercises._judges import parts, prediction
from utils.models.ladder import Attention

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


NAMES = {"W_qkv": (3, 1), "W_o": (1, 1)}   # (out, in) of the new layer, in units of d_model
MOVED = ("W_qkv.{kind} holds the right {parts} in the order {order}. In which order does `project` "
         "take them?")


def _load(load):
    """Judge load(old), which returns a MultiHeadAttention with the parameters of an Attention."""
    for d_model, n_heads in ((12, 3), (20, 5)):
        torch.manual_seed(d_model)
        old = Attention(d_model, n_heads)
        before = {name: tensor.clone() for name, tensor in old.state_dict().items()}
        new = load(old)
        problem = _form(new, d_model, n_heads) or _numbers(new, before) or _shared(new, old, before)
        if problem:
            return f"For Attention({d_model}, {n_heads}): {problem}"
    return ""


def _form(new, d_model, n_heads):
    """Return what is wrong with the layer besides its numbers, or ""."""
    if not isinstance(new, torch.nn.Module) or not all(hasattr(new, name) for name in NAMES):
        return f"it returns {type(new).__name__}; expected a MultiHeadAttention."
    if getattr(new, "n_heads", None) != n_heads:
        return f"the new layer has {getattr(new, 'n_heads', None)} heads, the old one {n_heads}."
    for name, units in NAMES.items():
        got, want = tuple(getattr(new, name).weight.shape), tuple(n * d_model for n in units)
        if got != want:
            return f"{name}.weight is {got}; expected {want}."
        if getattr(new, name).bias is None:
            return f"{name} has no bias, but the old layer has biases."
    return ""


def _numbers(new, old):
    """Return what is wrong with the numbers of the new layer, or ""; old: {name: tensor}."""
    for kind in ("weight", "bias"):
        blocks = {name: old[f"W_{name}.{kind}"] for name in "qkv"}
        problem = (_packed(getattr(new.W_qkv, kind), blocks, kind)
                   or _output(getattr(new.W_o, kind), old[f"W_o.{kind}"], kind))
        if problem:
            return problem
    return ""


def _packed(got, blocks, kind):
    """Return what is wrong with a weight or bias of W_qkv, or ""; blocks: {"q": tensor, …}."""
    for order in permutations("qkv"):
        if difference(got, torch.cat([blocks[name] for name in order])) < 1e-6:
            parts = "matrices" if kind == "weight" else "biases"
            return "" if order == tuple("qkv") else MOVED.format(
                kind=kind, parts=parts, order=", ".join(order))
    if kind == "weight" and difference(got, torch.cat([w.mT for w in blocks.values()])) < 1e-6:
        return "each matrix in W_qkv.weight is transposed. Both layers store (out, in)."
    for name in blocks:
        if difference(got, torch.cat([blocks[name]] * 3)) < 1e-6:
            return f"all three parts of W_qkv.{kind} come from W_{name}."
    return (f"W_qkv.{kind} does not hold the {kind} of W_q, W_k and W_v, one below the other. Has "
            "it been copied?")


def _output(got, want, kind):
    """Return what is wrong with a weight or bias of W_o, or ""."""
    if difference(got, want) < 1e-6:
        return ""
    if kind == "weight" and difference(got, want.mT) < 1e-6:
        return "W_o.weight is transposed. Both layers store (out, in)."
    return f"W_o.{kind} is not that of the old layer. Has it been copied?"


def _shared(new, old, before):
    """Return a message if old was changed, or if a change of old changes new, else ""."""
    for name, tensor in old.state_dict().items():
        if not torch.equal(tensor, before[name]):
            return f"it changes {name} of the old layer."
    with torch.no_grad():
        for tensor in old.parameters():
            tensor.add_(1)
    return "" if not _numbers(new, before) else (
        "if old is trained further, the new layer changes as well. Do both hold the same tensor?")


check = Check({
    "drop": Exercise(_drop, (
        "torch.rand_like(weights) draws one number from 0 to 1 for each weight. How likely is it "
        "to be at least p?",
        "In training: multiply by a tensor of 0 and 1, then divide by 1 - p. In evaluation: return "
        "the weights."),
        "On average each weight keeps its size, and in evaluation nothing is random."),
    "packed": Exercise(parts({
        "load": _load,
        "raises": prediction(False, "load_state_dict compares names and shapes. Do they differ?"),
        "other outputs": prediction(True, "With your parameters, which block does the colleague's "
                                          "class take for k?"),
        "other losses": prediction(False, "Suppose that you exchange two blocks in each of the "
                                          "hundred random matrices. Which class do you get, and "
                                          "are these matrices less likely than before?")}), (
        "Make a MultiHeadAttention of the right size first. d_model is old.W_q.in_features.",
        "torch.cat puts the rows of several matrices below each other. The biases are packed in "
        "the same order.",
        "new.load_state_dict({...}) copies numbers. Its keys are W_qkv.weight, W_qkv.bias, "
        "W_o.weight and W_o.bias."),
        "The order of the blocks is only a convention. It matters when parameters come from "
        "another program, and then no error is raised."),
})
