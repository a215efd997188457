"""Judges of the layer that deals features out like cards, in the chapter on einsum."""

import itertools

import torch
from einops import rearrange

from utils import masks, sizes
from utils.attention.einsum import MultiHeadAttentionNew
from utils.attention.torch import attention

PARTS = {"w_qs": "q", "w_ks": "k", "w_vs": "v", "merge": "o"}
FORM = {"d_model": sizes.D_IN, "d_k": sizes.D_HEAD, "d_v": sizes.D_V, "residual": False,
        "layer_norm": False}


def layer(made_like=MultiHeadAttentionNew):
    """Return a layer with random weights, always the same, 11 wide, 3 heads of 4 and 8."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return made_like(sizes.HEADS, **FORM).double().eval()


def sides():
    """Return x, memory and keep, (b, 1, j)."""
    keep = masks.padding([4, sizes.N_K], sizes.N_K)[:, 0]
    return *map(torch.as_tensor, sizes.sides(4)), torch.as_tensor(keep)


def run(state, dealt):
    """Return the output of a layer that deals cards in some of its four reshapes, (b, i, e)."""
    x, memory, keep = sides()

    def cut(side, name):
        axes = "(d head)" if name in dealt else "(head d)"
        side = side @ state[f"{name}.weight"].T + state[f"{name}.bias"]
        return rearrange(side, f"b n {axes} -> b head n d", head=sizes.HEADS)

    context, _ = attention(cut(x, "w_qs"), cut(memory, "w_ks"), cut(memory, "w_vs"),
                           keep[:, None])
    axes = "(d head)" if "merge" in dealt else "(head d)"
    merged = rearrange(context, f"b head n d -> b n {axes}")
    return merged @ state["fc.weight"].T + state["fc.bias"]


def judge_layer(made):
    """Judge the class of a layer: all four reshapes deal cards, and nothing else is changed."""
    if not isinstance(made, type) or not issubclass(made, torch.nn.Module):
        return "The layer is a class, made like MultiHeadAttentionNew."
    ours, theirs = layer(), layer(made)
    theirs.load_state_dict(ours.state_dict())
    x, memory, keep = sides()
    got = theirs(x, memory, memory, ~keep)
    got = got[0] if isinstance(got, tuple) else got
    if got.shape != (*x.shape[:2], sizes.D_IN):
        return f"Its output is {tuple(got.shape)}, not {(*x.shape[:2], sizes.D_IN)}."
    for number in range(4, -1, -1):
        for dealt in itertools.combinations(PARTS, number):
            if torch.allclose(got, run(ours.state_dict(), dealt)):
                return _left_out([part for part in PARTS if part not in dealt])
    return ("It computes something else, not only features dealt out. Change the four patterns "
            "and nothing besides: (head k) to (k head), (head v) to (v head).")


def _left_out(parts):
    if len(parts) == 4:
        return "On the same weights it agrees with ours: nothing is dealt out."
    return f"Not dealt out yet: {', '.join(parts)}." if parts else ""


def judge_reorder(reorder):
    """Judge a function that reorders our weights for the layer that deals cards."""
    ours = layer().state_dict()
    got = reorder({name: tensor.clone() for name, tensor in ours.items()}, sizes.HEADS)
    if not isinstance(got, dict) or set(got) != set(ours):
        return f"It returns a state dict with the names {', '.join(ours)}."
    wrong = [name for name in ours if got[name].shape != ours[name].shape]
    if wrong:
        return f"{wrong[0]} is now {tuple(got[wrong[0]].shape)}, not {tuple(ours[wrong[0]].shape)}."
    if torch.allclose(run(got, PARTS), run(ours, ())):
        return ""
    there, back = _ordered(ours, "(head d)", "(d head)"), _ordered(ours, "(d head)", "(head d)")
    as_it_was = [name for name in there if torch.equal(got[name], ours[name])]
    if len(as_it_was) == len(there):
        return "Every number is where it was."
    turned = [name for name in there if torch.equal(got[name], back[name])]
    if turned:
        return (f"{', '.join(turned)}: the other way round. The dealt layer will look for feature "
                "d of a head at (d head); today it lies at (head d).")
    if as_it_was:
        return f"Where they were: {', '.join(as_it_was)}. Which numbers do they meet now?"
    strange = [name for name in ours
               if not torch.equal(got[name], there.get(name, ours[name]))]
    return f"{', '.join(strange)}: not where the dealt layer looks for its features."


def _ordered(state, old, new):
    """Return the reordered tensors of a state dict: rows of w_qs, w_ks, w_vs, columns of fc."""
    rows = {name: rearrange(tensor, f"{old} ... -> {new} ...", head=sizes.HEADS)
            for name, tensor in state.items() if not name.startswith("fc")}
    return rows | {"fc.weight": rearrange(state["fc.weight"], f"e {old} -> e {new}",
                                          head=sizes.HEADS)}
