"""Judge of `ablation_test` in the chapter on reading heads: right and wrong ways to ablate."""

from contextlib import contextmanager

import torch

from ..models.head_scores import ablated
from ..models.language_model import LanguageModel


def judge_ablation_test(works):
    """Return what is wrong with a function works(ablate, model), "" if nothing is."""
    for ablate, what in RIGHT:
        result = works(ablate, small_model())
        if not isinstance(result, bool):
            return f"It must return True or False, not {type(result).__name__}."
        if not result:
            return f"This is a false alarm. The ablation is right: it {what}."
    missed = [what for ablate, what in WRONG if works(ablate, small_model())]
    if not missed:
        return ""
    return f"{len(missed)} of {len(WRONG)} wrong ablations pass. One of them {missed[0]}."


def small_model():
    """Return a model with random parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LanguageModel(11, d_model=24, n_heads=3, n_layers=2)
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.4)
    return model.eval()


def head_slice(model, layer, head):
    """Return the attention layer and the dimensions of one head, a slice."""
    attention = model.blocks[layer].attention
    d_head = attention.W_o.in_features // attention.n_heads
    return attention, slice(head * d_head, (head + 1) * d_head)


@contextmanager
def by_columns(model, layer, head):
    """Set the head's columns of W_o to zero."""
    attention, part = head_slice(model, layer, head)
    weight = attention.W_o.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[:, part] = 0
    try:
        yield model
    finally:
        with torch.no_grad():
            weight.copy_(kept)


@contextmanager
def by_values(model, layer, head):
    """Set the rows of W_v that make the head's values to zero."""
    attention, part = head_slice(model, layer, head)
    weight = attention.W_qkv.weight
    kept, start = weight.detach().clone(), 2 * len(weight) // 3
    with torch.no_grad():
        weight[start + part.start:start + part.stop] = 0
    try:
        yield model
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def hooked(where, change, keep=False):
    """Return an ablation: ``change(tensor, part)`` changes an input or output; part is a slice.

    ``where``: "into W_o" or "out of the layer"; ``keep``: the hook is never removed.
    """
    @contextmanager
    def ablate(model, layer, head):
        attention, part = head_slice(model, layer, head)
        if where == "into W_o":
            hook = attention.W_o.register_forward_pre_hook(
                lambda _, args: (change(args[0].clone(), part),))
        else:
            hook = attention.register_forward_hook(
                lambda _, args, out: change(out.clone(), part))
        try:
            yield model
        finally:
            if not keep:
                hook.remove()

    return ablate


def zero(context, part):
    """Set the head's part to zero."""
    context[..., part] = 0
    return context


def next_head(context, part):
    """Set the part of the next head to zero."""
    width, e = part.stop - part.start, context.shape[-1]
    return zero(context, slice(part.stop % e, part.stop % e + width))


def interleaved(context, part):
    """Set every third dimension to zero."""
    width = part.stop - part.start
    context[..., part.start // width::context.shape[-1] // width] = 0
    return context


def from_the_second(context, part):
    """Set the head's part to zero, but not in the first example."""
    context[1:, :, part] = 0
    return context


def others(context, part):
    """Set all but the head's part to zero."""
    kept = torch.zeros_like(context)
    kept[..., part] = context[..., part]
    return kept


def halved(context, part):
    """Halve the head's part."""
    context[..., part] /= 2
    return context


@contextmanager
def left_broken(model, layer, head):
    """Set the head's columns of W_o to zero, and leave them so."""
    attention, part = head_slice(model, layer, head)
    with torch.no_grad():
        attention.W_o.weight[:, part] = 0
    yield model


@contextmanager
def whole_layer(model, layer, head):
    """Ablate all heads of the layer."""
    with hooked("into W_o", lambda context, _: context * 0)(model, layer, head):
        yield model


@contextmanager
def first_layer(model, layer, head):
    """Ablate the head in layer 0, whatever the layer."""
    with ablated(model, 0, head):
        yield model


@contextmanager
def nothing(model, layer, head):
    """Do nothing."""
    yield model


RIGHT = ((lambda *where: ablated(*where), "overwrites the input of W_o"),
         (by_columns, "sets the head's columns of W_o to zero, and restores them"),
         (by_values, "sets the head's values to zero, and restores them"))
WRONG = ((hooked("out of the layer", zero), "overwrites the *output* of the layer, in which W_o "
                                            "has mixed all heads already"),
         (nothing, "does nothing at all"),
         (hooked("into W_o", next_head), "ablates the next head"),
         (hooked("into W_o", interleaved), "sets as many dimensions to zero, but of all heads"),
         (hooked("into W_o", others), "ablates all heads but this one"),
         (whole_layer, "ablates all heads of the layer"),
         (first_layer, "ablates the head in layer 0, whatever the layer"),
         (hooked("into W_o", halved), "only halves the output of the head"),
         (hooked("into W_o", from_the_second), "does not change the first example of a batch"),
         (hooked("into W_o", zero, keep=True), "never removes its hook, so the model stays "
                                               "without the head"),
         (left_broken, "is right at first, but does not restore the head"))
