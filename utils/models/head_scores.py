"""What the heads of a trained language model look at, and what each is worth.

Taught in chapter `reading_heads`. A kind of head is a *target*: for each query, the places that a
head of this kind would look at. The score of any head is the weight that it gives to them.

``model`` is a ``language_model.LanguageModel`` or another whose ``blocks`` hold such ``attention``;
tokens are integers (b, i), numbered from 0 at the start of the text.
"""

import math
from contextlib import contextmanager

import torch
import torch.nn.functional as F

from utils.attention.cache import visible
from utils.attention.torch import attention
from utils.models.language_model import rms_norm

BRACKETS = {")": "(", "]": "[", "}": "{"}


@contextmanager
def listening(modules):
    """Yield a list; while the block lasts, each call of a module appends its input to it."""
    heard = []
    hooks = [module.register_forward_pre_hook(lambda _, args: heard.append(args[0]))
             for module in modules]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def all_weights(model, tokens):
    """Return the weights of all heads of all layers, (b, i) -> (layer, b, h, i, j)."""
    layers = [block.attention for block in model.blocks]
    with listening(layers) as inputs:
        model(tokens)
    places = torch.arange(tokens.shape[1], device=tokens.device)
    keep = visible(places, places)
    return torch.stack([attention(*layer.heads_at(x, places), keep)[1]
                        for layer, x in zip(layers, inputs, strict=True)])


def score(weights, target):
    """Return the weight that each head gives to a target: (…, b, h, i, j), (b, i, j) -> (…, h).

    ``target`` is bool, (1, i, j) if it is that of all texts; the mean is over all queries that have
    one. Raises ValueError when none has.
    """
    target = target.expand(weights.shape[-4], -1, -1)
    asked = target.any(dim=-1)  # (b, i)
    if not asked.any():
        raise ValueError("no query has a target: the score would be a mean of nothing")
    given = (weights * target[:, None]).sum(dim=-1)  # (…, b, h, i)
    return given.movedim(-2, -1)[..., asked, :].mean(dim=-2)


def previous_character(n):
    """Return the target of each query's left neighbour, bool (1, n, n)."""
    places = torch.arange(n)
    return (places[None, :] == places[:, None] - 1)[None]


def after_the_same(n, period):
    """Return the target of what came next, one period ago, bool (1, n, n).

    In a text that repeats itself, the query at i reads what stood at i - period; what came next
    then stands at i - period + 1.
    """
    places = torch.arange(n)
    earlier = places[None, :] == places[:, None] - period + 1
    return earlier[None] & (places >= period)[:, None]


def open_bracket(texts):
    """Return the target of the innermost bracket that is open, texts of length n -> (b, n, n).

    A query inside round, square or curly brackets has one: the place of the opening one. A closing
    bracket that does not fit is ignored.
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
    """Return what each head hands on, on average over a text, (b, i) -> (layer, h, d)."""
    layers = [block.attention for block in model.blocks]
    with listening(layer.W_o for layer in layers) as contexts:  # (b, i, e) each
        model(tokens)
    return torch.stack([context.mean(dim=(0, 1)).unflatten(-1, (layer.n_heads, -1))
                        for layer, context in zip(layers, contexts, strict=True)])


@contextmanager
def ablated(model, layer, head, value=0.0):
    """Let one head hand on ``value``, a number or (d,), whatever it reads, while the block lasts.

    Heads hand on their contexts to W_o, side by side. Raises ValueError for a head that is not
    there.
    """
    layer = model.blocks[layer].attention
    W_o, n_heads = layer.W_o, layer.n_heads
    if not 0 <= head < n_heads:
        raise ValueError(f"head={head}: there are {n_heads} heads, 0 to {n_heads - 1}")
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
    """Return what each token after the first cost, in bits, (b, n) -> (b, n - 1)."""
    return torch.cat([_costs(model(part[:, :-1]), part) for part in tokens.split(64)])


def _costs(logits, tokens):
    """Return what tokens (b, n) cost after their first, in bits, by logits (b, n - 1, token)."""
    return F.cross_entropy(logits.mT, tokens[:, 1:], reduction="none") / math.log(2)


@torch.no_grad()
def bits_without_each(model, tokens, values):
    """Return ``bits_at`` without each head in turn, (b, n) -> (layer, h, b, n - 1).

    ``values`` (layer, h, d): what each head hands on instead. What lies below the layer of a head
    is computed once for all.
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
    """Return the costs of tokens, in bits, where x enters a layer, one head of it ablated."""
    with ablated(model, layer, head, value):
        for block in model.blocks[layer:]:
            x = block(x)
    logits = model.unembedding(rms_norm(x))
    return _costs(logits, tokens)


def interval(differences):
    """Return (mean, half the width of its 95 % interval) of independent numbers (n,)."""
    half = 1.96 * differences.std().item() / math.sqrt(len(differences))
    return differences.mean().item(), half
