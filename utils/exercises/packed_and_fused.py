"""The exercises of the chapter on packed projections and fused attention."""

import torch
from torch import nn

from ..attention.heads import merge_heads, split_heads
from ..attention.torch import attention
from ._check import Check, Exercise
from ._judges import recognise

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


NAMES = {"W_q": (1, 1), "W_kv": (2, 1), "W_o": (1, 1)}   # (out, in), in units of d_model
N_Q, N_K = 50, 70   # the lengths for which the stored tensors are counted


def _cross(program):
    """Judge a class Cross(d_model, n_heads, dropout), with k and v packed and with SDPA."""
    if not (isinstance(program, type) and issubclass(program, nn.Module)):
        return "Hand over the class itself, a subclass of nn.Module, without making a layer of it."
    torch.manual_seed(0)
    layer = program(12, 3, 0.5).double()
    problem = _cross_form(layer)
    if problem:
        return problem
    x, memory = torch.randn(2, 5, 12).double(), torch.randn(2, 7, 12).double()
    keep = (torch.arange(7) < torch.tensor([4, 7])[:, None])[:, None, None]   # (b, 1, 1, j)
    given = keep.clone()
    layer.eval()
    out, again = layer(x, memory, keep), layer(x, memory, keep)
    if not torch.is_tensor(out) or out.shape != x.shape:
        shape = tuple(out.shape) if torch.is_tensor(out) else type(out).__name__
        return f"For x (2, 5, 12) and memory (2, 7, 12) it returns {shape}; expected (2, 5, 12)."
    if not torch.equal(given, keep):
        return "It changes keep itself; make a new mask."
    if not torch.equal(out, again):
        return "After eval(), two calls differ. Who tells SDPA that the layer is in evaluation?"
    return (_cross_values(layer, x, memory, keep, out) or _cross_stored(program)
            or _cross_training(layer, x, memory, keep))


def _cross_form(layer):
    """Return what is wrong with the parameters of a layer of 12 dimensions, or ""."""
    for name, units in NAMES.items():
        part, want = getattr(layer, name, None), tuple(12 * n for n in units)
        if not isinstance(part, nn.Linear):
            return f"The layer has no nn.Linear named {name}."
        if tuple(part.weight.shape) != want:
            return f"{name}.weight is {tuple(part.weight.shape)} for d_model = 12; expected {want}."
    return ""


def _cross_values(layer, x, memory, keep, out):
    """Return what is wrong with the output of a layer in evaluation, or ""."""
    with torch.no_grad():
        message = recognise(out.detach(), _cross_candidates(layer, x, memory, keep), 1e-9)
    return ("The output differs from the reference. Compare the context with that of `attention` "
            "on the same q, k and v.") if message is None else message


def _cross_candidates(layer, x, memory, keep):
    """Yield (output, message): the right one with "", then those of known mistakes."""
    q, (k, v) = layer.W_q(x), layer.W_kv(memory).chunk(2, dim=-1)

    def run(k, v, mask=keep, split=split_heads, merge=merge_heads):
        context, _ = attention(split(q, 3), split(k, 3), split(v, 3), mask)
        return layer.W_o(merge(context))

    def torn(side, n_heads):
        return side.reshape(side.shape[0], n_heads, side.shape[1], -1)

    def torn_merge(context):
        return context.reshape(context.shape[0], context.shape[2], -1)

    whole = attention(q, k, v, keep[:, 0])[0]
    yield run(k, v), ""
    yield run(v, k), "It takes the rows of W_kv in the order v, k."
    yield run(k, v, None), "Padded keys get weight: the mask is not passed on."
    yield run(k, v, ~keep), "The mask is inverted. What does True mean in a bool mask of SDPA?"
    yield run(k, v, torch.ones(5, 7, dtype=torch.bool).tril()), (
        "It applies a causal mask in place of keep, but x and memory are two sequences.")
    yield run(k, v, split=torn), "The heads are torn: in the split, the transpose is missing."
    yield run(k, v, merge=torn_merge), "The heads are torn in the merge: the transpose is missing."
    yield layer.W_o(whole), "It computes one head of 12 dimensions in place of three of 4."
    yield merge_heads(attention(*(split_heads(side, 3) for side in (q, k, v)), keep)[0]), (
        "It returns the context, without the product by W_o.")


def _cross_stored(program):
    """Return a message if a layer without dropout stores its attention weights, or ""."""
    layer, kept = program(12, 3, 0.0), []

    def note(tensor):
        kept.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(torch.randn(1, N_Q, 12), torch.randn(1, N_K, 12),
              torch.ones(1, 1, 1, N_K, dtype=torch.bool))
    large = [shape for shape in kept if torch.Size(shape).numel() >= 3 * N_Q * N_K]
    return "" if not large else (
        f"The outputs are right, but for {N_Q} queries and {N_K} keys PyTorch stores a tensor "
        f"{large[0]}: the weights of all heads. Which function computes the context without them?")


def _cross_training(layer, x, memory, keep):
    """Return a message if a layer with dropout 0.5 drops nothing in training, or ""."""
    layer.train()
    if torch.equal(layer(x, memory, keep), layer(x, memory, keep)):
        return "With dropout = 0.5, two calls in training are equal, so nothing is dropped."
    return ""


check = Check({
    "cross": Exercise(_cross, (
        "Begin with PackedAttention. W_q is a matrix of its own, and W_kv has 2 * d_model rows. "
        "Which two sizes do their inputs have?",
        "chunk(2, dim=-1) cuts W_kv(memory) into k and v. Each side is split into heads alone, "
        "because q has i rows, and k and v have j.",
        "SDPA takes the mask as attn_mask. The flag is_causal belongs to self-attention; leave it "
        "out here."),
        "Two products make q, k and v, and PyTorch stores no weights."),
    "drop": Exercise(_drop, (
        "torch.rand_like(weights) draws one number from 0 to 1 for each weight. How likely is it "
        "to be at least p?",
        "In training: multiply by a tensor of 0 and 1, then divide by 1 - p. In evaluation: return "
        "the weights."),
        "On average each weight keeps its size, and in evaluation nothing is random."),
})
