"""Attempts at the exercises on einsum."""

import math

import torch
from einops import rearrange

from utils import checks
from utils.attention.einsum import MultiHeadAttentionNew
from utils.attention.torch import masked_softmax


def third(scores, attn, v):
    return scores.transpose(-2, -1)


def fifth(scores, attn, v):
    return attn.transpose(-2, -1) @ v


def not_written(scores, attn, v):
    ...


TWO = {3: (third, "new shape"), 5: (fifth, "raises")}


def project(context, weight, bias):
    W_o = rearrange(weight, "e (head v) -> head v e", head=context.shape[0])
    return torch.einsum("hblv,hve->ble", context, W_o) + bias


def unmerged(pattern, letters, share=1):
    def program(context, weight, bias):
        W_o = rearrange(weight, f"e {pattern} -> head v e", head=context.shape[0])
        return torch.einsum(f"hblv,hve->{letters}", context, W_o) + share * bias
    return program


def merged_first(context, weight, bias):
    return rearrange(context, "h b l v -> b l (h v)") @ weight.T + bias


def two_indices(context, weight, bias):
    W_o = rearrange(weight, "e (head v) -> head v e", head=context.shape[0])
    return torch.einsum("hblv,hse->ble", context, W_o) + bias


def three_heads(context, weight, bias):
    W_o = rearrange(weight, "e (head v) -> head v e", head=3)
    return torch.einsum("hblv,hve->ble", context, W_o) + bias


def torn(context, weight, bias):
    h, b, n, v = context.shape
    return context.reshape(b, n, h * v) @ weight.T + bias


def interleaving(q="(k head)", v="(v head)", merge="(v head)"):
    """Return a layer with these patterns; the default ones interleave the heads."""
    class Dealt(MultiHeadAttentionNew):
        def forward(self, x, memory, values, mask=None):
            n, keep = self.n_head, checks.drop(mask, x, memory, values)
            one_q = rearrange(self.w_qs(x), f"b l {q} -> head b l k", head=n)
            one_k = rearrange(self.w_ks(memory), f"b t {q} -> head b t k", head=n)
            one_v = rearrange(self.w_vs(values), f"b t {v} -> head b t v", head=n)
            scores = torch.einsum("hblk,hbtk->hblt", one_q, one_k) / math.sqrt(one_q.shape[-1])
            attn = masked_softmax(scores, keep)
            output = torch.einsum("hblt,hbtv->hblv", attn, one_v)
            return self.fc(rearrange(output, f"head b l v -> b l {merge}")), attn
    return Dealt


class Unmasked(interleaving()):
    def forward(self, q, k, v, mask=None):
        return super().forward(q, k, v)


class Open(MultiHeadAttentionNew):
    def forward(self, q, k, v, mask=None):
        ...


def reorder(state, n_head, old="(head d)", new="(d head)", left=()):
    rows = {name: rearrange(tensor, f"{old} ... -> {new} ...", head=n_head)
            for name, tensor in state.items() if not name.startswith("fc")}
    columns = {"fc.weight": rearrange(state["fc.weight"], f"e {old} -> e {new}", head=n_head)}
    return state | {name: tensor for name, tensor in (rows | columns).items() if name not in left}


def heads_too(state, n_head):
    """Also put the heads in another order, which the sum over heads does not see."""
    swapped = {}
    for name, tensor in state.items():
        axes = "e (head d)" if name == "fc.weight" else "(head d) ..."
        swapped[name] = tensor if name == "fc.bias" else rearrange(
            rearrange(tensor, f"{axes} -> head d {axes[0] if name == 'fc.weight' else '...'}",
                      head=n_head)[[2, 0, 1]],
            f"head d {'e' if name == 'fc.weight' else '...'} -> {axes}")
    return reorder(swapped, n_head)


CARDS = {"layer": interleaving(), "reorder": reorder, "training": False, "loading": True}
MERGE = {"project": project, "summed": "hv"}

RIGHT = {
    "six_equations": [TWO, {5: [lambda s, a, v: torch.einsum("hblt,hblv->hbtv", a, v), "raises"],
                            3: (lambda s, a, v: s.mT, "new shape")}],
    "merge": [MERGE, {"project": merged_first, "summed": ["v", "h"]},
              MERGE | {"summed": {"h", "v"}}, MERGE | {"summed": "head, V"}],
    "cards": [CARDS, CARDS | {"reorder": heads_too}]}

WRONG = {
    "six_equations": [
        ({2: TWO[3], 5: TWO[5]}, "2 is right. l and t have changed places"),
        ({3: TWO[3], 6: TWO[5]}, "6 is right. Every index has a new name"),
        ({3: TWO[3]}, "another equation is wrong as well"),
        ({5: TWO[5]}, "another equation is wrong as well"),
        (TWO | {5: (lambda s, a, v: a @ v, "raises")}, "what the equation *should* compute"),
        (TWO | {5: (lambda s, a, v: v, "raises")}, "return different numbers"),
        (TWO | {3: (lambda s, a, v: s.sum(-1), "new shape")}, "the equation (3, 2, 7, 7)"),
        (TWO | {3: (third, "raises")}, "'raises' is not what happens. Which of its"),
        (TWO | {5: (fifth, "new shape")}, "which of them does the string call l"),
        (TWO | {5: (not_written, None)}, "Still open: the function. Still open: what happens"),
        (TWO | {3: ("transposed", "new shape")}, "must be a function (scores, attn, v)"),
        (TWO | {5: fifth}, "Give two things"),
        (TWO | {3: (lambda s, a, v: s.transpose(), "new shape")}, "It raises TypeError"),
        ({"3": TWO[3]}, "numbers of the two wrong")],
    "merge": [
        (MERGE | {"project": unmerged("(v head)", "ble")}, "split in the wrong order"),
        (MERGE | {"project": unmerged("(head v)", "hble")}, "they must be added up"),
        (MERGE | {"project": unmerged("(head v)", "lbe")}, "(5, 2, 11), not (b, l, e)"),
        (MERGE | {"project": unmerged("(head v)", "ble", 0)}, "The bias is missing"),
        (MERGE | {"project": unmerged("(head v)", "ble", 3)}, "once for each head"),
        (MERGE | {"project": two_indices}, "the same index in both"),
        (MERGE | {"project": torn}, "the transpose is missing"),
        (MERGE | {"project": three_heads}, "raises EinopsError, at"),
        (MERGE | {"project": lambda *given: 2 * project(*given)}, "Which two indices"),
        (MERGE | {"summed": "v"}, "an axis for the heads"),
        (MERGE | {"summed": "h"}, "before the arrow, and not after"),
        (MERGE | {"summed": "hvt"}, "t was summed before"),
        (MERGE | {"summed": "e"}, "e is still in (b, l, e)"),
        (MERGE | {"project": lambda c, w, b: rearrange(w, "e (head v) -> head v", head=3)},
         "raises EinopsError")],
    "cards": [
        (CARDS | {"layer": MultiHeadAttentionNew}, "no pattern is changed"),
        (CARDS | {"layer": interleaving(merge="(head v)")},
         "These patterns are not changed yet: merge"),
        (CARDS | {"layer": interleaving(q="(head k)")},
         "These patterns are not changed yet: w_qs, w_ks"),
        (CARDS | {"layer": Unmasked}, "in more than the order of dimensions"),
        (CARDS | {"layer": Open}, "Still open: layer"),
        (CARDS | {"layer": reorder}, "a class"),
        (CARDS | {"reorder": lambda state, n_head: state}, "where it was"),
        (CARDS | {"reorder": lambda state, n: reorder(state, n, "(d head)", "(head d)")},
         "this is the inverse reordering"),
        (CARDS | {"reorder": lambda state, n: reorder(state, n, left=["w_qs.bias"])},
         "w_qs.bias: unchanged"),
        (CARDS | {"reorder": lambda state, n: reorder(state, n, left=["fc.weight"])},
         "fc.weight: unchanged"),
        (CARDS | {"reorder": lambda state, n: {name: tensor.flip(0)
                                               for name, tensor in state.items()}},
         "not where Dealt looks"),
        (CARDS | {"reorder": lambda state, n: {"w_qs": state["w_qs.weight"]}}, "the names w_qs"),
        (CARDS | {"training": True}, "how could the loss differ"),
        (CARDS | {"loading": False}, "both layers with the same parameters"),
        (CARDS | {"reorder": lambda state: state}, "raises TypeError")]}
