"""The judge of the fourth milestone: attention and a feed-forward layer, each added to x."""

import copy

import torch
from torch import nn

from ...checks import difference
from . import probes

D_MODEL, HEADS, N = 24, 3, 7
LINEAR = 0.01  # of the change: what rounding and attention leave


def block(answer):
    """Judge Block(d_model, n_heads), a module (b, n, e) -> (b, n, e)."""
    message = probes.no_module(answer, "Block", "d_model, n_heads")
    if message:
        return message
    with probes.seeded():
        made, x = probes.awake(answer(D_MODEL, HEADS)), torch.randn(2, N, D_MODEL)
        message = probes.hidden(made) or _batch_norm(made) or probes.wrong_tensor(
            made(x), (2, N, D_MODEL), "Block(24, 3) of x (2, 7, 24)")
        return (message or probes.by_chance(made, x, "Block") or _ahead(made, x)
                or probes.forgets(made, x, "Block") or probes.across_the_batch(made, x, "Block")
                or _not_added(made, x) or _no_norm(made, x) or _attention_not_added(made, x)
                or _normed_stream(made, x) or _linear(made)
                or probes.without_gradient(made, made(x)))


def _batch_norm(made):
    """Return what is wrong if a norm divides by what it has measured on whole batches."""
    for name, module in made.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return (f"`{name}` is {type(module).__name__}, a norm of the wrong kind: it takes its "
                    "mean over the examples and the positions of a batch, so the tokens depend on "
                    "each other. A block needs a norm over the elements of each token: LayerNorm "
                    "or RMSNorm → chapter the_block.")
    return ""


def _ahead(made, x):
    """Return what is wrong if an output depends on a later token."""
    found = probes.ahead(made, x)
    if not found:
        return ""
    i, j = found[0]
    return (f"Output {i} depends on token {j}, which is later. If MultiHead alone is causal, "
            "another line mixes positions: a norm must take its mean over the d_model elements of "
            "one token, axis -1, and not over the positions or the whole tensor → chapter "
            "decoder_mask.")


@torch.no_grad()
def _not_added(made, x):
    """Return what is wrong unless x remains when all matrices are zero.

    With the norm last, the norm of x remains; so only its direction is compared.
    """
    silent = copy.deepcopy(made)
    for module in silent.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.zero_()
    for parameter in silent.parameters():
        if parameter.ndim > 1:
            parameter.zero_()
    sides = (side - side.mean(dim=-1, keepdim=True) for side in (silent(x), x))
    if torch.cosine_similarity(*sides, dim=-1).min() > 0.9:
        return ""
    return ("If all its matrices are zero, a block must return its input, or the norm of it; from "
            "yours the input is gone. Both attention and the feed-forward layer are *added* to x "
            "(the residual connection): look for a line without `x +` → chapter the_block.")


@torch.no_grad()
def _attention_not_added(made, x):
    """Return what is wrong if what attention returns is not added to the result of the block.

    A large vector is put in the place of what it returns, and its opposite in a second run. Their
    difference must point where the vector does, even if a norm follows.
    """
    mixing = _mixing(made, x)
    if mixing is None:
        return ""
    large = 1000 * torch.randn_like(x)
    large = large - large.mean(dim=-1, keepdim=True)
    results = []
    for sign in (1, -1):
        hook = mixing.register_forward_hook(lambda *_, sign=sign: sign * large)
        results.append(made(x))
        hook.remove()
    if torch.cosine_similarity(results[0] - results[1], large, dim=-1).mean() > 0.3:
        return ""
    return ("What attention returns is not added to the result of the block: only the feed-forward "
            "layer sees it. Give the sum a name and go on with it: x = x + attention(norm(x)), "
            "and then return x + feed_forward(norm(x)) → chapter the_block.")


def _mixing(made, x):
    """Return the first layer in a block that makes (b, n, e) of it and mixes tokens, or None."""
    for module in list(made.modules())[1:]:
        calls = []
        hook = module.register_forward_hook(
            lambda _, given, out, calls=calls: calls.append((given, out)))
        made(x)
        hook.remove()
        if len(calls) != 1 or not calls[0][0]:
            continue
        (first, *more), out = calls[0]
        if not isinstance(out, torch.Tensor) or not out.shape == first.shape == x.shape:
            continue
        other = first.clone()
        other[:, 0] = first[:, 1]
        if difference(module(other, *more)[:, 1:], out[:, 1:]) > probes.SAME:
            return module
    return None


@torch.no_grad()
def _no_norm(made, x):
    """Return what is wrong if a larger input gets a change that is larger by as much."""
    small, large = made(x), made(1000 * x)
    change = (large - 1000 * x).std() / (small - x).std()
    if change < 30 or large.std() / small.std() < 30:
        return ""
    return (f"If x is 1000 times as large, the block changes it by {change:.0f} times as much: a "
            "norm is missing in front of attention or of the feed-forward layer, so the numbers "
            "grow from block to block → chapter the_block.")


@torch.no_grad()
def _normed_stream(made, x):
    """Return what is wrong if x is normed on its way, and not by the last step of the block."""
    small, large = made(x), made(1000 * x)
    if large.std() > 30 * small.std():
        return ""
    sizes = large.square().mean(dim=-1).sqrt()  # (b, n), all equal behind a norm
    if sizes.std() < 0.01 * sizes.mean():
        return ""
    return ("If x is 1000 times as large, the result is not: x itself is normed, and the layers "
            "are added to the norm of it. Leave x as it is, x = x + layer(norm(x)), or put a norm "
            "behind every sum, x = norm(x + layer(x)) → chapter the_block.")


@torch.no_grad()
def _linear(made):
    """Return what is wrong if a block is linear for one token, where softmax has one weight, 1.

    The inputs are a·cos t + b·sin t with a and b orthogonal, of one length and of mean 0, so that
    a norm divides all of them by the same number. They are large, so that after the norms nothing
    is left of what attention has added.
    """
    a, b = torch.zeros(2, D_MODEL)
    a[0::4], a[2::4], b[1::4], b[3::4] = 1, -1, 1, -1
    angles = torch.tensor([0.0, 0.5, 1.0, 1.5, 0.25]) * torch.pi
    inputs = 1000 * (angles.cos()[:, None] * a + angles.sin()[:, None] * b)
    out = made(inputs[:, None])[:, 0]  # one token each
    if out.std() < 0.1 * inputs.std():  # the norm comes last, and is not linear
        return ""
    change = out - inputs
    centre = (change[0] + change[2]) / 2
    linear = centre + (change[0] - centre + change[1] - centre) / 2 ** 0.5
    if (change[4] - linear).std() > LINEAR * change[4].std():
        return ""
    return ("Given one token, the block is linear apart from its norms: it has no feed-forward "
            "layer, or one without a nonlinear function such as GELU between its two matrices "
            "→ chapter the_block.")
