"""The exercises of the chapter on the block."""

import torch
from torch import nn

from ..models.ladder import Attention, CharacterModel, RotaryAttention
from ._check import Check, Exercise
from ._judges import recognise, same_answer


def _layer_norm(layer_norm):
    """Judge layer_norm(x, gain, bias) for x (b, i, e)."""
    generator = torch.Generator().manual_seed(0)
    x = 3 + 2 * torch.randn(3, 5, 12, generator=generator, dtype=torch.float64)
    gain, bias = torch.randn(2, 12, generator=generator, dtype=torch.float64)
    before = x.clone()
    found = layer_norm(x, gain, bias)
    if not torch.equal(x, before):
        return "It changes x in place, but the residual still needs it."
    if not isinstance(found, torch.Tensor) or found.shape != x.shape:
        shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
        return f"For x (3, 5, 12) it must return a tensor (3, 5, 12), not {shape}."
    message = recognise(found, _known_norms(x, gain, bias), 1e-3)
    if message is None:
        return ("The numbers are wrong. Take one token vector: subtract its mean, divide by its "
                "standard deviation, multiply by gain, add bias.")
    if message:
        return message
    flat = layer_norm(torch.full_like(x, 2.0), gain, bias)
    if not flat.isfinite().all() or (flat - bias).abs().max() > 1e-6:
        return ("If all features of a token are equal, its standard deviation is 0, and you "
                "divide by it. Add a small number, such as 1e-5, to the variance.")
    return ""


def _known_norms(x, gain, bias):
    """Yield (result, message), the right one first."""
    def normed(*dims, correction=0):
        deviation = x - x.mean(dim=dims, keepdim=True)
        return deviation / x.std(dim=dims, keepdim=True, correction=correction)

    right = normed(-1)
    yield right * gain + bias, ""
    yield normed(1) * gain + bias, (
        "You take the mean over the positions (dim=1). So each output depends on later tokens, and "
        "the norm leaks. Take it over the features of one token.")
    yield normed(1, 2) * gain + bias, (
        "You take one mean for all positions of an example. So outputs depend on later tokens. "
        "Each token has a mean of its own.")
    yield normed(0) * gain + bias, (
        "You take the mean over the batch (dim=0), so an example depends on the others.")
    yield normed(0, 1, 2) * gain + bias, (
        "You take one mean for the whole array. Each token has a mean of its own.")
    yield normed(-1, correction=1) * gain + bias, (
        "Your standard deviation divides by e − 1, as torch.std does without an argument. "
        "LayerNorm divides by e.")
    yield (x / x.std(dim=-1, keepdim=True, correction=0)) * gain + bias, (
        "The mean is not subtracted.")
    yield x / x.square().mean(dim=-1, keepdim=True).sqrt() * gain + bias, (
        "That is RMSNorm: it divides by the root of the mean square, and subtracts no mean.")
    yield ((x - x.mean(dim=-1, keepdim=True)) / x.var(dim=-1, keepdim=True, correction=0) * gain
           + bias), "You divide by the variance. Its square root is missing."
    yield right, "gain and bias are not used."
    yield right * gain, "bias is not added."
    yield right + bias, "gain is not used."
    yield (right + bias) * gain, "Multiply by gain first, then add bias."


def _parameters(count):
    """Judge count(d_model), how many parameters a block has."""
    for d in (64, 12, 40):
        found = count(d)
        if same_answer(found, 12 * d * d + 13 * d):
            continue
        for mistake, message in COUNTS.items():
            if same_answer(found, mistake(d)):
                return message
        return (f"For d_model = {d} it returns {found!r}. List all nn.Linear and nn.LayerNorm of a "
                "block, and what each holds.")
    return ""


COUNTS = {
    lambda d: 12 * d * d: "Those are the matrices. Each nn.Linear has a bias, too, and a norm has "
                          "a gain and a bias.",
    lambda d: 12 * d * d + 9 * d: "The norms are missing: each has a gain and a bias for each "
                                  "feature.",
    lambda d: 12 * d * d + 4 * d: "The biases of the linear layers are missing.",
    lambda d: 12 * d * d + 11 * d: "A block has two norms, and each has a gain *and* a bias.",
    lambda d: 8 * d * d + 9 * d: "One of the two matrices of the feed-forward layer is missing.",
    lambda d: 11 * d * d + 12 * d: "Attention has four matrices: for q, k, v and the output.",
    lambda d: 4 * d * d + 4 * d: "That is attention alone.",
    lambda d: 8 * d * d + 5 * d: "That is the feed-forward layer alone.",
}


def _stack(stack):
    """Judge stack(n_tokens, d_model, n_heads, n_blocks), a CharacterModel."""
    torch.manual_seed(0)
    model = stack(7, 12, 3, 4)
    if not isinstance(model, CharacterModel):
        return f"It must return a CharacterModel, not {type(model).__name__}."
    layers = list(model.layers)
    blocks = [layer for layer in layers if type(layer).__name__ == "Block"]  # also the page's own
    message = (_wrong_blocks(blocks, 4) or _wrong_norm(layers, blocks)
               or _wrong_sizes(model, blocks))
    if message:
        return message
    return "" if len(stack(7, 12, 3, 2).layers) == 3 else "n_blocks is not used."


def _wrong_blocks(blocks, wanted):
    """Return what is wrong with the list of blocks, "" if nothing is."""
    if len(blocks) != wanted:
        return (f"With n_blocks = {wanted}, the number of Blocks among the model's layers is "
                f"{len(blocks)}. Pass each as an argument: CharacterModel(…, *blocks, …).")
    if len(set(map(id, blocks))) < wanted:
        return ("All blocks are one object, so they share their parameters, and training makes "
                "them equal. A list times n repeats the object. Make a new Block for each.")
    if len({id(block.attention) for block in blocks}) < wanted:
        return "The blocks share one attention layer. Make a new one for each block."
    if any(type(block.attention) is Attention for block in blocks):
        return "This attention knows no positions. The last rung had RoPE: keep it."
    if not all(isinstance(block.attention, RotaryAttention) for block in blocks):
        return "The attention of each block must be a RotaryAttention."
    return ""


def _wrong_norm(layers, blocks):
    """Return what is wrong with the layers that are no blocks, "" if nothing is."""
    others = [layer for layer in layers if layer not in blocks]
    if not others:
        return ("The last norm is missing. In a pre-norm block the residual is never normalised, "
                "so x reaches the unembedding as large as the blocks have made it.")
    if len(others) > 1:
        return f"There are {len(others)} layers besides the blocks. Only the last norm is needed."
    if not isinstance(others[0], nn.LayerNorm) or layers[-1] is not others[0]:
        return "After the last block, there must be a LayerNorm, and nothing else."
    return ""


def _wrong_sizes(model, blocks):
    """Return which size was not used, "" if all were."""
    heads = {block.attention.n_heads for block in blocks}
    sizes = {"n_tokens": (model.unembedding.out_features, 7),
             "d_model": (model.embedding.embedding_dim, 12), "n_heads": (max(heads), 3)}
    for name, (found, wanted) in sizes.items():
        if found != wanted:
            return f"With {name} = {wanted}, the model has {found}."
    logits = model(torch.arange(5)[None])
    return "" if logits.shape == (1, 5, 7) else f"The logits have the shape {tuple(logits.shape)}."


check = Check({
    "layer_norm": Exercise(_layer_norm, (
        "mean and var with dim=-1 and keepdim=True give one number for each token, (b, i, 1).",
        "The variance of LayerNorm divides by e: x.var(dim=-1, keepdim=True, correction=0).",
        "Divide by the root of variance + 1e-5; then multiply by gain and add bias."),
        "The small number, eps in PyTorch, is there for tokens whose features are all equal."),
    "parameters": Exercise(_parameters, (
        "nn.Linear(a, b) holds a matrix of a · b numbers and a bias of b.",
        "Attention has four linear layers of d to d. The feed-forward layer has d to 4d and 4d "
        "to d.",
        "A LayerNorm holds a gain and a bias, d numbers each, and there are two."),
        "Two thirds of the matrices belong to the feed-forward layer. Neither the number of heads "
        "nor the length of the text matters."),
    "stack": Exercise(_stack, (
        "Make a list of blocks in a loop, each with a RotaryAttention of its own.",
        "CharacterModel takes any layers: n_tokens, d_model, then the blocks with a star, then "
        "the last norm."),
        "Train one with two blocks: learn(model, tokens, steps=1000). It takes about a minute, and "
        "it is the next rung."),
})
