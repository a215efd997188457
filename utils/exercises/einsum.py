"""The exercises of the chapter on einsum."""

import torch
from einops import rearrange

from utils import sizes
from utils.checks import difference
from utils.exercises._answers import listed, same
from utils.exercises._check import Check, Exercise, asked, untouched
from utils.exercises._dealt_cards import judge_layer, judge_reorder
from utils.exercises._parts import parts, value

RIGHT = {1: "It is the string of this page.",
         2: "l and t have changed places, and so have k and q before the arrow. Rename them back.",
         4: "l and t have changed places, in every term. Rename them back.",
         6: "Every letter has a new name. Which letter is summed, and in which arrays is it?"}
WRONG = {3: ("hbtk,hblk->hbtl", "new shape"), 5: ("hblt,hblv->hbtv", "raises")}
WHAT = {3: "Which of its two last axes is as long as the queries, which as long as the keys?",
        5: "attn has 5 and 7 places, v has 7: which of them does the string call l?"}


def _six(given):
    if not isinstance(given, dict) or not set(given) <= {1, 2, 3, 4, 5, 6}:
        return "The answer is a dict; its keys are the numbers of the two wrong equations."
    lines = [f"{number} is right. {RIGHT[number]}" for number in given if number in RIGHT]
    lines += [f"{number} is wrong, indeed. {said}" for number in WRONG if number in given
              and (said := _instead(number, given[number]))]
    missing = len(set(WRONG) - set(given))
    if missing and not lines:
        lines.append("What you say is so, but one of the others is wrong as well: after the arrow, "
                     "does l still stand for queries and t for keys, or the other way round "
                     "throughout?")
    return listed(lines)


def _instead(number, told):
    """Return what is wrong with (function, what happens at n_q = 5, n_k = 7)."""
    if not isinstance(told, list | tuple) or len(told) != 2:
        return "Two things about it: a function, and what happens if n_q is not n_k."
    function, what = told
    if not (callable(function) or untouched(function)):
        return f"{function!r} says it in words; a function (scores, attn, v) says it in numbers."
    lines = ["Still open: the function."] if untouched(function) else [
        asked(lambda given: _computes(number, given), function)]
    if untouched(what):
        lines.append("Still open: what happens if n_q is not n_k.")
    elif not same(what, WRONG[number][1]):
        if not any(same(what, word) for _, word in WRONG.values()):
            return f'It is "raises" or "new shape", not {what!r}.'
        lines.append(f"But with n_q = 5 and n_k = 7, not {what!r}. {WHAT[number]}")
    return " ".join(filter(None, lines))


def _computes(number, function):
    q, k, v = map(torch.as_tensor, sizes.qkv(5, batch=3, heads=2, n_q=7))  # (h, b, …)
    scores = q @ k.mT
    attn = scores.softmax(dim=-1)
    got = function(scores, attn, v)
    expected = torch.einsum(WRONG[number][0], *((k, q) if number == 3 else (attn, v)))
    if got.shape != expected.shape:
        return f"Your function returns {tuple(got.shape)}, the equation {tuple(expected.shape)}."
    if difference(got, expected) < 1e-9:
        return ""
    if difference(got, scores if number == 3 else attn @ v) < 1e-9:
        return "Your function returns what it *should* compute. What does it compute instead?"
    return ("Your function returns other numbers than the equation. Take a single number of the "
            "result: which letters are fixed, and over which does the sum run?")


def _project(project):
    return _projected(project, 3, 2) or _projected(project, 2, 3)


def _projected(project, h, b):
    context = torch.as_tensor(sizes.qkv(6, batch=h, heads=b)[2])[:, :, :5]  # (h, b, l, v)
    weight = torch.as_tensor(sizes.weights(6, d_in=8 * h)["W_k"][:, :11].T.copy())  # (e, h * v)
    bias = torch.as_tensor(sizes.weights(6)["b_o"])[:11]
    got = project(context, weight, bias)
    per_head = rearrange(weight, "e (head v) -> head v e", head=h)
    bare = torch.einsum("hblv,hve->ble", context, per_head)
    if got.shape != bare.shape:
        more = " An output for each head: nobody has added them up." if got.ndim == 4 else ""
        return f"The output is {tuple(got.shape)}, not (b, l, e) = {tuple(bare.shape)}.{more}"
    dealt = rearrange(weight, "e (v head) -> head v e", head=h)
    torn = context.reshape(b, 5, 8 * h) @ weight.T
    for wrong, why in (
            (bare + bias, ""), (bare, "The bias is not in it."),
            (bare + h * bias, "The bias is in it once for each head."),
            (bare / h + bias, "That is the mean over the heads."),
            (torch.einsum("hblv,hve->ble", context, dealt) + bias,
             "The weights are dealt out like cards. In fc.weight, which changes slowly, the head "
             "or the feature?"),
            (torch.einsum("hblv,hse->ble", context, per_head) + bias,
             "The features of both are summed before they meet: v needs one letter in both."),
            (torn + bias, "A reshape took (h, b, l, v) for (b, l, h, v), and tore the words.")):
        if difference(got, wrong) < 1e-9:
            return why
    return "Other numbers. Which two letters do context and the cut fc.weight share?"


def _summed(given):
    letters = {letter.lower().replace("head", "h") for letter in (
        given.split() if isinstance(given, str) else given)}
    letters = set("".join(letters)) - set(", ")
    if "t" in letters:
        return "t was summed before: the context has no keys left."
    if letters & set("ble"):
        return f"{', '.join(sorted(letters & set('ble')))} is still there in (b, l, e)."
    return {"hv": "", "h": "v is before the arrow, and not after it.",
            "v": "Then the result would have an axis for the heads."}.get(
        "".join(sorted(letters)), "Only letters of hblv and hve, please.")


check = Check({
    "six_equations": Exercise(_six, (
        "Letters are names. Rename them so that queries are l and keys are t, look at the result, "
        "and only then compare with hblk,hbtk->hblt and hblt,hbtv->hblv.",
        "The letter that v shares with attn must be the one that softmax ran over, attn's last.",
        "A number of the result that is fixed at a query must be a sum over keys. In one of the "
        "six it is the other way round, and in another the result is laid out keys first."),
        "Renaming is free, and so is exchanging the arrays; what counts is which axis carries "
        "which letter."),
    "merge": Exercise(parts({"project": _project, "summed": _summed}), (
        "fc reads the merged context, (b, l, (head v)). Its columns therefore belong to heads: "
        "rearrange(weight, \"e (head v) -> ...\", head=...).",
        "Read off which letters the two arrays share: they go with each other. Those missing in "
        "(b, l, e) are summed.",
        "The number of heads is the first size of context. The bias comes once, at the end."),
        "h is summed like any other letter: the output is a sum over heads, each with a matrix of "
        "its own, so that one can be switched off by leaving out its term."),
    "cards": Exercise(parts({
        "layer": judge_layer, "reorder": judge_reorder,
        "training": value(False, "Random weights reordered are random weights. Of what would the "
                                 "loss complain?"),
        "loading": value(True, "You have just seen both layers with the same weights.")}), (
        "Follow one number. Ours expects feature d of head h of the queries in row (head d) of "
        "w_qs. Where does the dealt layer expect it?",
        "Four layers have numbers that belong to heads: rows of three of them, biases included, "
        "and the columns of the last. rearrange can reorder an axis: \"(a b) ... -> (b a) ...\".",
        "For training, think of the two layers with all their random weights: is there a network "
        "that the one can become and the other cannot?"),
        "The two layers are one family of functions with other names for the weights: nothing "
        "but copied weights can tell them apart."),
})
