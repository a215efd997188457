"""The judge of the fifth milestone: tokens in, logits out."""

import math

import torch
import torch.nn.functional as F

from ...checks import difference
from . import probes

TOKENS, D_MODEL, HEADS, LAYERS = 23, 24, 3, 2
N = 11
LEAST = 128   # tokens that a model must take at once
ABOVE, BELOW = 1.0, 0.3  # nats around ln V in which a new model's loss must lie


def model(answer):
    """Judge Model(n_tokens, d_model, n_heads, n_layers), a module (b, n) -> (b, n, n_tokens)."""
    message = probes.no_module(answer, "Model", "n_tokens, d_model, n_heads, n_layers")
    if message:
        return message
    with probes.seeded():
        made = answer(TOKENS, D_MODEL, HEADS, LAYERS)
        message = (_context(made) or _wrong_logits(made.eval()) or _loss(answer)
                   or _layers(answer) or probes.hidden(made))
    if message:
        return message
    with probes.seeded():
        probes.awake(made)
        x = torch.randn(3, N, 1)
        tokens = _tokens(x)
        logits = made(tokens)
        return (probes.by_chance(made, tokens, "Model") or _ahead(made, x)
                or _beginning(made, tokens) or probes.across_the_batch(made, tokens, "Model")
                or probes.without_gradient(made, logits) or _order(answer))


def _tokens(x):
    """Return normal noise (b, n, 1) as tokens (b, n)."""
    return (1000 * x[..., 0]).long() % TOKENS


def _context(made):
    """Return what is wrong with the attribute context."""
    context = getattr(made, "context", None)
    if isinstance(context, int) and context >= LEAST:
        return ""
    return (f"`model.context` must say how many tokens the model takes at once, an integer of at "
            f"least {LEAST}; yours is {context!r}. `train` and `write` read it.")


@torch.no_grad()
def _wrong_logits(made):
    """Return what is wrong with the shape or the kind of the result."""
    for n in (N, 1, made.context):
        logits = made(torch.randint(TOKENS, (2, n)))
        said = f"For tokens (2, {n}) and n_tokens={TOKENS}, the logits"
        message = probes.wrong_tensor(logits, (2, n, TOKENS), said)
        if message:
            return message
        if logits.min() >= 0 and difference(logits.sum(dim=-1), torch.ones(2, n)) < probes.SAME:
            return ("The results are probabilities: they sum to 1. Return the logits, without "
                    "softmax, since F.cross_entropy applies it → chapter language_model.")
    return ""


@torch.no_grad()
def _loss(answer):
    """Return what is wrong with the loss of a new model on random tokens, ln V by right."""
    n_tokens, wide = 101, answer(101, 64, 4, LAYERS).eval()
    tokens = torch.randint(n_tokens, (8, 65))
    logits = wide(tokens[:, :-1]).flatten(0, 1)
    loss, fair = F.cross_entropy(logits, tokens[:, 1:].flatten()).item(), math.log(n_tokens)
    if fair - BELOW < loss < fair + ABOVE:
        return ""
    why = ("it has seen the targets" if loss < fair else
           "its first logits are too large. Do they come from an embedding with elements of "
           "standard deviation 1, or from an x without a norm in front of the last matrix")
    return (f"A new model with {n_tokens} tokens knows nothing, so its loss must be near "
            f"ln {n_tokens} = {fair:.2f}; yours is {loss:.2f}: {why} → chapter language_model.")


def _layers(answer):
    """Return what is wrong if more layers do not have more parameters."""
    counts = {layers: sum(parameter.numel() for parameter in answer(
        TOKENS, D_MODEL, HEADS, layers).parameters()) for layers in (1, 3)}
    if counts[3] > counts[1]:
        return ""
    return (f"A model of 3 layers has as many parameters as one of 1 layer, {counts[1]}. Blocks in "
            "a plain list are unknown to nn.Module, and no optimiser trains them: use "
            "nn.ModuleList. And each layer must be a block of its own.")


def _ahead(made, x):
    """Return what is wrong if logits depend on a later token."""
    found = probes.ahead(lambda noise: made(_tokens(noise)), x)
    if not found:
        return ""
    i, j = found[0]
    return (f"The logits at position {i} depend on token {j}, which is later; token {i + 1} is "
            "what they must predict. If Block alone is causal, look at what Model does with x "
            "before and after the blocks → chapter decoder_mask.")


@torch.no_grad()
def _beginning(made, tokens):
    """Return what is wrong if the logits of a text's beginning depend on its length."""
    shorter = made(tokens[:, :6])
    if difference(made(tokens)[:, :6], shorter) < probes.SAME:
        return ""
    return ("The logits of the first 6 tokens of a text change when the later ones are left out, "
            "so they depend on the length of the text. Positions must count from the first token, "
            "0, 1, 2, …, not from the last one, and not be divided by the length "
            "→ chapter positions.")


@torch.no_grad()
def _order(answer):
    """Return what is wrong if one layer gives the same logits for tokens in another order.

    Two layers would differ even without positions, as a causal mask shows each token a prefix.
    """
    made = probes.awake(answer(TOKENS, D_MODEL, HEADS, 1))
    tokens = torch.arange(N)[None]
    swapped = tokens.clone()
    swapped[0, [2, 5]] = tokens[0, [5, 2]]
    if difference(made(tokens)[:, -1], made(swapped)[:, -1]) > probes.SAME:
        return ""
    return ("If two earlier tokens change places, the logits of one layer stay the same: nothing "
            "tells the model where a token stands. Add a vector for each position to the "
            "embeddings, or rotate q and k by angles that grow with the *position* "
            "→ chapter positions.")
