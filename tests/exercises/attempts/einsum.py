"""Attempts at the exercises on einsum."""

import math

import numpy as np
import torch
from einops import rearrange

from utils import checks
from utils.attention.einsum import MultiHeadAttentionNew
from utils.attention.torch import masked_softmax


def own_einsum(string, first, second, add=True, order=lambda result, letters: result,
               check=True, product=lambda one, other: one * other):
    """Return np.einsum, by loops; the options are mistakes."""
    before, result = string.split("->")
    terms = before.split(",")
    sizes = {}
    for term, array in zip(terms, (first, second), strict=True):
        for letter, size in zip(term, array.shape, strict=True):
            if sizes.setdefault(letter, size) != size and check:
                raise ValueError(letter)
            sizes[letter] = min(size, sizes[letter])
    result = order(result, sizes)
    out = np.zeros([sizes[letter] for letter in result])
    for values in np.ndindex(*sizes.values()):
        at = dict(zip(sizes, values, strict=True))
        one, other = (array[tuple(at[letter] for letter in term)]
                      for term, array in zip(terms, (first, second), strict=True))
        place = tuple(at[letter] for letter in result)
        out[place] = add * out[place] + product(one, other)
    return out


def own_mistake(**options):
    def program(string, first, second):
        return own_einsum(string, first, second, **options)
    return program


def as_it_comes(result, letters):
    return "".join(letter for letter in letters if letter in result)


def by_broadcasting(string, first, second):
    """Return np.einsum, by one product of arrays with an axis for every letter."""
    before, result = string.split("->")
    letters = "".join(dict.fromkeys(before.replace(",", "")))
    full = 1.0
    for term, array in zip(before.split(","), (first, second), strict=True):
        for letter in set(term):
            while term.count(letter) > 1:
                one, other = term.index(letter), term.rindex(letter)
                array = array.diagonal(axis1=one, axis2=other)
                term = "".join(c for n, c in enumerate(term) if n not in (one, other)) + letter
        array = array.transpose([term.index(letter) for letter in letters if letter in term])
        full = full * array.reshape([array.shape[sorted(term, key=letters.index).index(letter)]
                                     if letter in term else 1 for letter in letters])
    axes = tuple(n for n, letter in enumerate(letters) if letter not in result)
    kept = [letter for letter in letters if letter in result]
    return full.sum(axes).transpose([kept.index(letter) for letter in result])


def mean_einsum(string, first, second):
    before, result = string.split("->")
    out = own_einsum(string, first, second)
    return out * out.size / own_einsum(
        f"{before}->{''.join(dict.fromkeys(before.replace(',', '')))}", first, second).size


def twice_in_a_term(string, first, second):
    """Take the letters of "ii" for two, and read one of them."""
    if string == "ii,i->i":
        return first[0] * second
    return own_einsum(string, first, second)


def index_error(string, first, second):
    if string == "d,jd->j" and first.shape[0] != second.shape[1]:
        raise IndexError("index 2 is out of bounds")
    return own_einsum(string, first, second)


def by_library(string, first, second):
    return np.einsum(string, first, second)


def nothing_back(string, first, second):
    own_einsum(string, first, second)


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
    "own_einsum": [own_mistake(), by_broadcasting,
                   lambda string, *arrays: torch.as_tensor(own_einsum(string, *arrays))],
    "merge": [MERGE, {"project": merged_first, "summed": ["v", "h"]},
              MERGE | {"summed": {"h", "v"}}, MERGE | {"summed": "head, V"}],
    "cards": [CARDS, CARDS | {"reorder": heads_too}]}

WRONG = {
    "own_einsum": [
        (own_mistake(order=as_it_comes), "The order after the arrow counts (rule 3)"),
        (own_mistake(order=lambda result, letters: "".join(letters)), "no letter is summed over"),
        (own_mistake(add=False), "holds the last product alone"),
        (mean_einsum, "this is the mean"),
        (own_mistake(product=lambda one, other: one + other), "product summed over d: which"),
        (own_mistake(order=lambda result, letters: ""), "not (3,). The letters after"),
        (twice_in_a_term, "only the diagonal counts"),
        (own_mistake(check=False), "and there is no error"),
        (index_error, "raises IndexError and not ValueError"),
        (by_library, "write it with loops"),
        (nothing_back, "is the `return` missing"),
        (np.einsum, "write it with loops"),
        (np.ones(3), "its name, without calling it"),
        (lambda string, first, second: first @ second.T, "a product of arrays")],
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
