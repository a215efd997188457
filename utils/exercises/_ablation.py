"""The judge of a test for ablations: it must pass the right ones and notice the wrong ones."""

from contextlib import contextmanager

import torch

from utils.models.head_scores import ablated
from utils.models.language_model import LanguageModel


def tells_right_from_wrong(works):
    """Return what is wrong with a function works(ablate, model), "" if nothing is."""
    for ablate, what in RIGHT:
        told = works(ablate, small_model())
        if not isinstance(told, bool):
            return f"It returns True or False, not {type(told).__name__}."
        if not told:
            return f"A false alarm: this ablation is right. It {what}."
    missed = [what for ablate, what in WRONG if works(ablate, small_model())]
    return "" if not missed else (
        f"{len(missed)} of {len(WRONG)} wrong ablations pass. One of them {missed[0]}.")


def small_model():
    """Return a model of random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LanguageModel(11, d_model=24, n_heads=3, n_layers=2)
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.4)
    return model.eval()


def parts(model, layer, head):
    """Return the attention layer and the features of one head, a slice."""
    attention = model.blocks[layer].attention
    d_head = attention.W_o.in_features // attention.n_heads
    return attention, slice(head * d_head, (head + 1) * d_head)


@contextmanager
def by_columns(model, layer, head):
    """Take the head's columns out of W_o."""
    attention, stripe = parts(model, layer, head)
    weight = attention.W_o.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[:, stripe] = 0
    try:
        yield model
    finally:
        with torch.no_grad():
            weight.copy_(kept)


@contextmanager
def by_values(model, layer, head):
    """Take away the rows of W_v that make the head's values."""
    attention, stripe = parts(model, layer, head)
    weight = attention.W_qkv.weight
    kept, start = weight.detach().clone(), 2 * len(weight) // 3
    with torch.no_grad():
        weight[start + stripe.start:start + stripe.stop] = 0
    try:
        yield model
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def hooked(where, change, keep=False):
    """Return an ablation: ``change(tensor, stripe)`` acts on what goes into, or comes out of, it.

    ``where``: "into W_o" or "out of the layer"; ``keep``: the hook is never removed.
    """
    @contextmanager
    def ablate(model, layer, head):
        attention, stripe = parts(model, layer, head)
        if where == "into W_o":
            hook = attention.W_o.register_forward_pre_hook(
                lambda _, args: (change(args[0].clone(), stripe),))
        else:
            hook = attention.register_forward_hook(
                lambda _, args, out: change(out.clone(), stripe))
        try:
            yield model
        finally:
            if not keep:
                hook.remove()

    return ablate


def zero(context, stripe):
    """Silence the stripe."""
    context[..., stripe] = 0
    return context


def next_stripe(context, stripe):
    """Silence the stripe of the next head."""
    width, e = stripe.stop - stripe.start, context.shape[-1]
    return zero(context, slice(stripe.stop % e, stripe.stop % e + width))


def interleaved(context, stripe):
    """Silence every third feature."""
    width = stripe.stop - stripe.start
    context[..., stripe.start // width::context.shape[-1] // width] = 0
    return context


def from_the_second(context, stripe):
    """Silence the stripe, but not in the first example."""
    context[1:, :, stripe] = 0
    return context


def others(context, stripe):
    """Silence all but the stripe."""
    kept = torch.zeros_like(context)
    kept[..., stripe] = context[..., stripe]
    return kept


def softer(context, stripe):
    """Halve the stripe."""
    context[..., stripe] /= 2
    return context


@contextmanager
def left_broken(model, layer, head):
    """Take the head's columns out of W_o, for good."""
    attention, stripe = parts(model, layer, head)
    with torch.no_grad():
        attention.W_o.weight[:, stripe] = 0
    yield model


@contextmanager
def whole_layer(model, layer, head):
    """Silence all heads of the layer."""
    with hooked("into W_o", lambda context, _: context * 0)(model, layer, head):
        yield model


@contextmanager
def first_layer(model, layer, head):
    """Silence the head in layer 0, whichever layer was asked for."""
    with ablated(model, 0, head):
        yield model


@contextmanager
def nothing(model, layer, head):
    """Do nothing."""
    yield model


RIGHT = ((lambda *where: ablated(*where), "overwrites what goes into W_o"),
         (by_columns, "takes the head's columns out of W_o, and puts them back"),
         (by_values, "takes away the head's values, and puts them back"))
WRONG = ((hooked("out of the layer", zero), "overwrites what comes *out* of the layer, where W_o "
                                            "has mixed all heads already"),
         (nothing, "does nothing at all"),
         (hooked("into W_o", next_stripe), "silences the next head"),
         (hooked("into W_o", interleaved), "silences as many features, of all heads alike"),
         (hooked("into W_o", others), "silences all heads but this one"),
         (whole_layer, "silences all heads of the layer"),
         (first_layer, "silences the head in layer 0, whichever layer was asked for"),
         (hooked("into W_o", softer), "only halves what the head says"),
         (hooked("into W_o", from_the_second), "leaves the first example of a batch alone"),
         (hooked("into W_o", zero, keep=True), "never removes its hook, so the model stays "
                                               "without the head"),
         (left_broken, "is right while it lasts, but does not bring the head back"))
