"""The exercises of the chapter on a multi-head layer."""

import torch
from torch import nn

from ._check import Check, Exercise
from ._judges import doctor_report


def _list_of_heads(program):
    if not (isinstance(program, type) and issubclass(program, nn.Module)):
        return "Hand over the class itself, a subclass of nn.Module, without making a layer of it."
    return (_ignored_input(program) or _lost_parameters(program) or _masked(program)
            or doctor_report(program, "layer", masks="padding", framework="torch"))


def _ignored_input(program):
    """Return which input the layers of a class ignore, "" if none; errors are the doctor's."""
    torch.manual_seed(0)
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    try:
        layer = program(12, 3).eval()
        out = layer(x, memory, None)
        if torch.equal(layer(x, -memory, None), out):
            return ("The output is the same for any memory, but the keys and the values must come "
                    "from memory.")
        if torch.equal(layer(-x, memory, None), out):
            return "The output is the same for any x, but the queries must come from x."
    except Exception:  # the doctor says which
        return ""
    return ""


def _lost_parameters(program):
    """Return a message if a class has fewer parameters than four matrices, "" otherwise."""
    try:
        found = sum(parameter.numel() for parameter in program(12, 3).parameters())
    except Exception:  # the doctor says which
        return ""
    if found >= 4 * 12 * 12:
        return ""
    return (f"For d_model = 12, layer.parameters() has {found} elements, but four matrices have "
            "576, so an optimiser would not change all of them. Does a plain list hold the heads? "
            "Use nn.ModuleList.")


def _masked(program):
    """Return a message if a mask (b, 1, 1, j) changes the shape of the output, "" otherwise."""
    keep = torch.arange(7) < torch.tensor([4, 7])[:, None, None, None]  # (b, 1, 1, j)
    try:
        out = program(12, 3).eval()(torch.randn(2, 5, 12), torch.randn(2, 7, 12), keep)
    except Exception:  # the doctor says which
        return ""
    if out.shape == (2, 5, 12):
        return ""
    return (f"With a mask (2, 1, 1, 7), the output is {tuple(out.shape)}; expected (2, 5, 12). "
            "The scores of one head are (b, i, j), so which axis of the mask is too many?")


def _positions(program):
    """Judge a class Positions(d_model, length), which adds a learned vector for each position."""
    if not (isinstance(program, type) and issubclass(program, nn.Module)):
        return "Hand over the class itself, a subclass of nn.Module, without making a layer of it."
    layer, x = program(12, 20), torch.randn(2, 20, 12)
    parameters = list(layer.parameters())
    if not parameters:
        return ("layer.parameters() is empty, so training can change nothing: use nn.Parameter or "
                "nn.Embedding, in __init__.")
    for parameter in parameters:
        nn.init.normal_(parameter)
    given = x.clone()
    out = layer(x)
    if not torch.is_tensor(out) or out.shape != x.shape:
        shape = tuple(out.shape) if torch.is_tensor(out) else type(out).__name__
        return f"For x (2, 20, 12) it returns {shape}; the vectors are added, so expected the same."
    if not torch.equal(x, given):
        return "It changes x itself; return a new tensor."
    return (_what_is_added(layer, x, (out - x).detach())
            or _what_is_learned(out, parameters))


def _what_is_added(layer, x, added):
    """Return what is wrong with the vectors ``added`` to x, both (2, 20, 12), "" for nothing."""
    def same(a, b):
        return torch.allclose(a, b, atol=1e-4)

    with torch.no_grad():
        if not same(layer(2 * x) - 2 * x, added):
            return "What is added depends on the token vectors; expected only on the positions."
        if not same(added[0], added[1]):
            return "Two examples get different vectors at the same position. Which axis counts i?"
        if same(added[0, 0], added[0, 1]):
            return "Positions 0 and 1 get the same vector, so the order is still lost."
        if not same(layer(x[:, :5]) - x[:, :5], added[:, :5]):
            return "With 5 tokens, position 0 does not get the vector that it gets with 20."
    return ""


def _what_is_learned(out, parameters):
    """Return what is wrong with the parameters behind an output, "" for nothing."""
    count = sum(parameter.numel() for parameter in parameters)
    if count != 20 * 12:
        return f"Positions(12, 20) has {count} parameters; expected 20 vectors of 12."
    if not out.requires_grad:
        return "No gradient reaches the vectors: is something detached?"
    return ""


check = Check({
    "list_of_heads": Exercise(_list_of_heads, (
        "Head does what one head does: project, scores, mask, softmax, context. Its queries come "
        "from x, its keys and values from memory, and its scores are (b, i, j).",
        "keep[:, 0] is (b, 1, j), which fits scores (b, i, j). Divide the scores by the root of "
        "d_head, the size of the last axis of q, and softmax them over the keys.",
        "Mine: nn.ModuleList([Head(…), …]), torch.cat(contexts, dim=-1), then nn.Linear(d_model, "
        "d_model)."),
        "Each head is a small module, as in the formula, and the doctor finds nothing. Such a loop "
        "is easy to read and slow; with `view` all heads take one product."),
    "positions": Exercise(_positions, (
        "nn.Parameter(torch.zeros(length, d_model)) makes a table that training adjusts. Which "
        "rows of it belong to the i tokens of x?",
        "x is (b, i, e), the first i rows of the table are (i, e), and + broadcasts them over b."),
        "Put it before the attention, and the model knows the order of the characters."),
})
