"""Judge of `two_sequences` in the chapter on view and transpose: a class for two sequences."""

import torch
from torch import nn

from .. import masks, reference
from ..checks import to_numpy
from ._judges import recognise

D_IN, N_HEADS, D_HEAD = 11, 3, 4
SIZES = {"W_q": (D_IN, N_HEADS * D_HEAD), "W_k": (D_IN, N_HEADS * D_HEAD),
         "W_v": (D_IN, N_HEADS * D_HEAD), "W_o": (N_HEADS * D_HEAD, D_IN)}


def judge(program):
    """Return what is wrong with a reader's class, "" if nothing is."""
    if not (isinstance(program, type) and issubclass(program, nn.Module)):
        return "Hand over the class itself, a subclass of nn.Module, without making a layer of it."
    torch.manual_seed(0)
    layer = program(D_IN, N_HEADS, D_HEAD).double().eval()
    return _wrong_projections(layer) or _wrong_outputs(layer)


def _wrong_projections(layer):
    for name, (d_in, d_out) in SIZES.items():
        linear = getattr(layer, name, None)
        if not isinstance(linear, nn.Linear):
            return f"The layer has no nn.Linear with the name {name}."
        if (linear.in_features, linear.out_features) != (d_in, d_out):
            return (f"With d_in={D_IN}, n_heads={N_HEADS} and d_head={D_HEAD}, {name} should lead "
                    f"from {d_in} to {d_out} dimensions. Yours leads from {linear.in_features} to "
                    f"{linear.out_features}.")
    return ""


def _wrong_outputs(layer):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 5, D_IN, generator=generator, dtype=torch.float64)
    source = torch.randn(2, 7, D_IN, generator=generator, dtype=torch.float64)
    for keep in (None, torch.as_tensor(masks.padding([4, 6], 7)),
                 torch.as_tensor(masks.causal(5, 7, "bottom_right"))):
        try:
            got = layer(x, source, keep)
        except RuntimeError as error:
            return _explained(error)
        if got is None:
            return "forward returns None: is a return missing?"
        problem = recognise(to_numpy(got), _candidates(layer, x, source, keep))
        if problem is None:
            problem = (f"It returns the shape {tuple(got.shape)} for x {tuple(x.shape)}."
                       if got.shape != x.shape else
                       "The output has the right shape and other numbers than the reference. Print "
                       "the shapes on every line, and compare them with those in the class of this "
                       "page.")
        if problem:
            return problem
    return ""


def _explained(error):
    """Return what to say of an error of PyTorch; other errors are raised again."""
    message = " ".join(str(error).split())
    if "invalid for input of size" in message:
        return (f"A view or reshape raises RuntimeError: {message}. x has 5 tokens and source 7: "
                "which length do you use for the keys and values? And d_head is given.")
    if "must match the size of tensor" in message or "expected size for first two" in message:
        return (f"It raises RuntimeError: {message}. The axes in front of the last two must be the "
                "same in both factors of `@`: is a transpose missing?")
    raise error


def _candidates(layer, x, source, keep):
    """Yield (output, what is said of it), the right one first."""
    w = {}
    for name in SIZES:
        linear = getattr(layer, name)
        w[name] = to_numpy(linear.weight.detach()).T
        w[name.replace("W", "b")] = (0 if linear.bias is None else to_numpy(linear.bias.detach()))
    heads = _projected(x, source, w)
    right = {"heads": heads, "keep": keep}

    def out(merge=reference.merge_heads, heads=heads, keep=keep, scale=None):
        q, k, v = heads
        context, _ = reference.attention(q, k, v, keep, scale=scale)
        return merge(context) @ w["W_o"] + w["b_o"]

    yield out(**right), ""
    if keep is not None:
        yield out(keep=None), "It is right without a mask, and with one it ignores the mask."
        if (~keep).any(dim=-1).all():  # else the output has NaN
            yield out(keep=~keep), "The mask is inverted: True means that a query may attend."
    yield out(scale=1), "The scores are not divided by √d_head."
    yield out(scale=D_IN ** -0.5), "You divide by √d_in. A score is a dot product of one head."
    yield out(scale=(N_HEADS * D_HEAD) ** -0.5), (
        "You divide by the root of all heads' dimensions. A score is a dot product of one head.")
    torn = tuple(_torn_split(side) for side in _projected(x, source, w, reference.float64))
    yield out(_torn_merge), (
        "The heads are torn in the merge: is the transpose missing before the reshape?")
    yield out(heads=torn), (
        "The heads are torn in the split: view must name (b, i, h, d), and then transpose.")
    yield out(_torn_merge, heads=torn), (
        "The heads are torn twice, in the split and in the merge: the transposes are missing.")
    if keep is None:
        yield out(heads=_projected(x, x, w)), (
            "The keys and values are made from x. They should be made from source.")


def _projected(x, source, w, split=None):
    """Return q, k and v, in heads (b, h, i, d) by default."""
    split = split or (lambda side: reference.split_heads(side, N_HEADS))
    sides = []
    for name, side in (("q", x), ("k", source), ("v", source)):
        sides.append(split(reference.float64(side) @ w[f"W_{name}"] + w[f"b_{name}"]))
    return tuple(sides)


def _torn_split(side):
    return side.reshape(side.shape[0], N_HEADS, side.shape[1], D_HEAD)


def _torn_merge(context):
    return context.reshape(context.shape[0], context.shape[2], N_HEADS * D_HEAD)
