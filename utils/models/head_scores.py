"""What the heads of a trained language model attend to, and how much each contributes.

Taught in chapter `reading_heads`. A *target* describes a kind of head: for each query, the
positions that a head of this kind attends to. The score of a head is the attention weight that it
gives to them.

``model`` is a ``language_model.LanguageModel``, or another model whose ``blocks`` have such an
``attention``; tokens are integers (b, i) at positions 0, 1, 2, ….
"""

import math
from contextlib import contextmanager

import torch
import torch.nn.functional as F

from ..attention.cache import visible
from ..attention.torch import attention
from .language_model import rms_norm

BRACKETS = {")": "(", "]": "[", "}": "{"}


@contextmanager
def listening(modules):
    """Yield a list to which each call of a module appends its input, inside the ``with`` block."""
    inputs = []
    hooks = [module.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
             for module in modules]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def all_weights(model, tokens):
    """Return the attention weights of all heads, (layer, b, h, i, j)."""
    layers = [block.attention for block in model.blocks]
    with listening(layers) as inputs:
        model(tokens)
    places = torch.arange(tokens.shape[1], device=tokens.device)
    keep = visible(places, places)
    return torch.stack([attention(*layer.heads_at(x, places), keep)[1]
                        for layer, x in zip(layers, inputs, strict=True)])


def score(weights, target):
    """Return the mean attention weight of each head on a target, (…, h).

    ``weights`` are (…, b, h, i, j). ``target`` is bool, (b, i, j), or (1, i, j) for all sequences.
    The mean is over all queries that have a target. Raises ValueError if no query has one.
    """
    target = target.expand(weights.shape[-4], -1, -1)
    asked = target.any(dim=-1)  # (b, i)
    if not asked.any():
        raise ValueError("no query has a target, so the score is undefined")
    given = (weights * target[:, None]).sum(dim=-1)  # (…, b, h, i)
    return given.movedim(-2, -1)[..., asked, :].mean(dim=-2)


def previous_character(n):
    """Return the target of the previous position, bool (1, n, n)."""
    places = torch.arange(n)
    return (places[None, :] == places[:, None] - 1)[None]


def after_the_same(n, period):
    """Return the target of the next token, one period ago, bool (1, n, n).

    In a sequence that repeats after ``period`` tokens, tokens i and i - period are equal, and token
    i - period + 1 is the token that follows i.
    """
    places = torch.arange(n)
    earlier = places[None, :] == places[:, None] - period + 1
    return earlier[None] & (places >= period)[:, None]


def open_bracket(texts):
    """Return the target of the innermost open bracket, bool (b, n, n).

    ``texts`` have equal lengths n. The target of a query inside round, square or curly brackets is
    the position of the opening bracket. A closing bracket that does not match is ignored.
    """
    n = len(texts[0])
    target = torch.zeros(len(texts), n, n, dtype=torch.bool)
    for b, text in enumerate(texts):
        opened = []
        for i, character in enumerate(text):
            if opened and text[opened[-1]] == BRACKETS.get(character):
                opened.pop()
            if opened:
                target[b, i, opened[-1]] = True
            if character in BRACKETS.values():
                opened.append(i)
    return target


@torch.no_grad()
def mean_contexts(model, tokens):
    """Return the mean context of each head over all tokens, (b, i) -> (layer, h, d)."""
    layers = [block.attention for block in model.blocks]
    with listening(layer.W_o for layer in layers) as contexts:  # (b, i, e) each
        model(tokens)
    return torch.stack([context.mean(dim=(0, 1)).unflatten(-1, (layer.n_heads, -1))
                        for layer, context in zip(layers, contexts, strict=True)])


@contextmanager
def ablated(model, layer, head, value=0.0):
    """Replace the context of one head by ``value`` inside the block.

    ``value`` is a number or (d,); it is set in the input of W_o, where the contexts of all heads
    are concatenated. Raises ValueError for a head that does not exist.
    """
    layer = model.blocks[layer].attention
    W_o, n_heads = layer.W_o, layer.n_heads
    if not 0 <= head < n_heads:
        raise ValueError(f"head must be in 0 .. {n_heads - 1}, got {head}")
    d_head = W_o.in_features // n_heads

    def overwrite(_, args):
        context = args[0].clone()  # (b, i, e)
        context[..., head * d_head:(head + 1) * d_head] = value
        return (context,)

    hook = W_o.register_forward_pre_hook(overwrite)
    try:
        yield model
    finally:
        hook.remove()


@torch.no_grad()
def bits_at(model, tokens):
    """Return the loss of each token after the first, in bits, (b, n) -> (b, n - 1)."""
    return torch.cat([_costs(model(part[:, :-1]), part) for part in tokens.split(64)])


def _costs(logits, tokens):
    """Return the losses of tokens (b, n) after the first, in bits; logits are (b, n - 1, token)."""
    return F.cross_entropy(logits.mT, tokens[:, 1:], reduction="none") / math.log(2)


@torch.no_grad()
def bits_without_each(model, tokens, values):
    """Return ``bits_at`` with each head ablated in turn, (b, n) -> (layer, h, b, n - 1).

    ``values`` (layer, h, d) replace the contexts of the heads. The layers below that of an ablated
    head are computed only once.
    """
    parts = []
    for part in tokens.split(64):
        with listening(model.blocks) as entering:  # (b, n - 1, e) each
            model(part[:, :-1])
        costs = [_costs_from(model, layer, head, x, part, values[layer, head])
                 for layer, x in enumerate(entering) for head in range(values.shape[1])]
        parts.append(torch.stack(costs).unflatten(0, values.shape[:2]))
    return torch.cat(parts, dim=2)


def _costs_from(model, layer, head, x, tokens, value):
    """Return the losses of tokens, in bits, from the input x of a layer with one head ablated."""
    with ablated(model, layer, head, value):
        for block in model.blocks[layer:]:
            x = block(x)
    logits = model.unembedding(rms_norm(x))
    return _costs(logits, tokens)


def interval(differences):
    """Return (mean, half the width of its 95 % interval) of numbers (n,)."""
    half = 1.96 * differences.std().item() / math.sqrt(len(differences))
    return differences.mean().item(), half
