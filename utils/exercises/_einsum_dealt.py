"""Judges of `cards` in the chapter on einsum: a layer that interleaves the heads' dimensions."""

import itertools

import torch
from einops import rearrange

from .. import masks, sizes
from ..attention.einsum import MultiHeadAttentionNew
from ..attention.torch import attention

RESHAPES = ("w_qs", "w_ks", "w_vs", "merge")
OPTIONS = {"d_model": sizes.D_IN, "d_k": sizes.D_HEAD, "d_v": sizes.D_V, "residual": False,
           "layer_norm": False}


def _layer(cls):
    """Return a layer with random parameters, always the same: d_model 11, 3 heads of 4 and 8."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return cls(sizes.HEADS, **OPTIONS).double().eval()


def _inputs():
    """Return x, memory and keep, (b, 1, j)."""
    keep = masks.padding([4, sizes.N_K], sizes.N_K)[:, 0]
    return *map(torch.as_tensor, sizes.sides(4)), torch.as_tensor(keep)


def _run(state, interleaved):
    """Return the output of a layer that interleaves in some of its four reshapes, (b, i, e)."""
    x, memory, keep = _inputs()

    def axes(name):
        return "(d head)" if name in interleaved else "(head d)"

    def split(side, name):
        side = side @ state[f"{name}.weight"].T + state[f"{name}.bias"]
        return rearrange(side, f"b n {axes(name)} -> b head n d", head=sizes.HEADS)

    context, _ = attention(split(x, "w_qs"), split(memory, "w_ks"), split(memory, "w_vs"),
                           keep[:, None])
    merged = rearrange(context, f"b head n d -> b n {axes('merge')}")
    return merged @ state["fc.weight"].T + state["fc.bias"]


def judge_layer(cls):
    """Judge the class of a layer: it must interleave in all four reshapes and change no more."""
    if not isinstance(cls, type) or not issubclass(cls, torch.nn.Module):
        return "The layer must be a class, made like MultiHeadAttentionNew."
    ours, theirs = _layer(MultiHeadAttentionNew), _layer(cls)
    theirs.load_state_dict(ours.state_dict())
    x, memory, keep = _inputs()
    got = theirs(x, memory, memory, ~keep)
    got = got[0] if isinstance(got, tuple) else got
    if got.shape != (*x.shape[:2], sizes.D_IN):
        return f"Its output is {tuple(got.shape)}, not {(*x.shape[:2], sizes.D_IN)}."
    for number in range(4, -1, -1):
        for changed in itertools.combinations(RESHAPES, number):
            if torch.allclose(got, _run(ours.state_dict(), changed)):
                return _unchanged([name for name in RESHAPES if name not in changed])
    return ("It differs in more than the order of dimensions. Change the four patterns and nothing "
            "else: (head k) to (k head), (head v) to (v head).")


def _unchanged(names):
    if len(names) == len(RESHAPES):
        return "With the same parameters it agrees with our layer: no pattern is changed."
    return f"These patterns are not changed yet: {', '.join(names)}." if names else ""


def judge_reorder(reorder):
    """Judge a function that reorders our parameters for the interleaving layer."""
    ours = _layer(MultiHeadAttentionNew).state_dict()
    got = reorder({name: tensor.clone() for name, tensor in ours.items()}, sizes.HEADS)
    if not isinstance(got, dict) or set(got) != set(ours):
        return f"It must return a state dict with the names {', '.join(ours)}."
    for name in ours:
        if got[name].shape != ours[name].shape:
            return f"{name} is now {tuple(got[name].shape)}, not {tuple(ours[name].shape)}."
    if torch.allclose(_run(got, RESHAPES), _run(ours, ())):
        return ""
    wanted = _reordered(ours, "(head d)", "(d head)")
    inverse = _reordered(ours, "(d head)", "(head d)")
    unchanged = [name for name in wanted if torch.equal(got[name], ours[name])]
    if len(unchanged) == len(wanted):
        return "It changes nothing: every number is where it was."
    inverted = [name for name in wanted if torch.equal(got[name], inverse[name])]
    if inverted:
        return (f"{', '.join(inverted)}: this is the inverse reordering. Dealt looks for dimension "
                "d of a head at (d head); in our layer it is at (head d).")
    if unchanged:
        return f"{', '.join(unchanged)}: unchanged. By which numbers are they multiplied in Dealt?"
    other = [name for name in ours if not torch.equal(got[name], wanted.get(name, ours[name]))]
    return f"{', '.join(other)}: the dimensions are not where Dealt looks for them."


def _reordered(state, old, new):
    """Return the reordered tensors of a state dict: rows of w_qs, w_ks, w_vs, columns of fc."""
    rows = {name: rearrange(tensor, f"{old} ... -> {new} ...", head=sizes.HEADS)
            for name, tensor in state.items() if not name.startswith("fc")}
    return rows | {"fc.weight": rearrange(state["fc.weight"], f"e {old} -> e {new}",
                                          head=sizes.HEADS)}
