"""The exercises of the chapter on einsum."""

import torch
from einops import rearrange

from utils import sizes
from utils.exercises._check import Check, Exercise, not_attempted, run_judge
from utils.exercises._einsum_dealt import judge_layer, judge_reorder
from utils.exercises._judges import join_messages, parts, prediction, recognise, same_answer

RIGHT = {1: "It is the string of this page.",
         2: "l and t have changed places, and so have k and q before the arrow. Rename them back.",
         4: "l and t have changed places, in every term. Rename them back.",
         6: "Every index has a new name. Which index is summed, and in which arrays is it?"}
WRONG = {3: ("hbtk,hblk->hbtl", "new shape"), 5: ("hblt,hblv->hbtv", "raises")}
SIZES = {3: "Which of its two last axes is as long as the queries, which as long as the keys?",
         5: "attn is (…, 5, 7) and v has 7 rows: which of them does the string call l?"}


def _six_equations(given):
    if not isinstance(given, dict) or not set(given) <= {1, 2, 3, 4, 5, 6}:
        return "The answer must be a dict whose keys are the numbers of the two wrong equations."
    lines = [f"{number} is right. {RIGHT[number]}" for number in given if number in RIGHT]
    for number in WRONG:
        message = _about_wrong(number, given[number]) if number in given else ""
        if message:
            lines.append(f"{number} is indeed wrong. {message}")
    if not lines and set(given) != set(WRONG):
        lines.append("What you say is correct, but another equation is wrong as well: for each of "
                     "them, find out which index stands for the queries and which for the keys.")
    return join_messages(lines)


def _about_wrong(number, answer):
    """Return what is wrong with (function, what happens at n_q = 5, n_k = 7)."""
    if not isinstance(answer, list | tuple) or len(answer) != 2:
        return "Give two things: a function, and what happens if n_q is not n_k."
    function, what = answer
    if not (callable(function) or not_attempted(function)):
        return f"{function!r} must be a function (scores, attn, v) that computes the same."
    messages = []
    if not_attempted(function):
        messages.append("Still open: the function.")
    else:
        messages.append(run_judge(lambda given: _computes(number, given), function))
    if not_attempted(what):
        messages.append("Still open: what happens if n_q is not n_k.")
    elif not any(same_answer(what, known) for _, known in WRONG.values()):
        return f'The second part must be "raises" or "new shape", not {what!r}.'
    elif not same_answer(what, WRONG[number][1]):
        messages.append(f"With n_q = 5 and n_k = 7, {what!r} is not what happens. {SIZES[number]}")
    return " ".join(filter(None, messages))


def _computes(number, function):
    q, k, v = map(torch.as_tensor, sizes.qkv(5, batch=3, heads=2, n_q=7))  # (h, b, …)
    scores = q @ k.mT
    attn = scores.softmax(dim=-1)
    got = function(scores, attn, v)
    intended, arrays = (scores, (k, q)) if number == 3 else (attn @ v, (attn, v))
    expected = torch.einsum(WRONG[number][0], *arrays)
    if got.shape != expected.shape:
        return (f"Your function returns the shape {tuple(got.shape)}, the equation "
                f"{tuple(expected.shape)}.")
    message = recognise(got, (
        (expected, ""),
        (intended, "Your function returns what the equation *should* compute. What does it compute "
                   "instead?")))
    if message is None:
        message = ("Your function and the equation return different numbers. Take one element of "
                   "the result: which indices are fixed, and over which index is the sum?")
    return message


def _project(project):
    return _projected(project, 3, 2) or _projected(project, 2, 3)


def _projected(project, h, b):
    context = torch.as_tensor(sizes.qkv(6, batch=h, heads=b)[2])[:, :, :5]  # (h, b, l, v)
    weight = torch.as_tensor(sizes.weights(6, d_in=8 * h)["W_k"][:, :11].T.copy())  # (e, h * v)
    bias = torch.as_tensor(sizes.weights(6)["b_o"])[:11]
    got = project(context, weight, bias)
    per_head = rearrange(weight, "e (head v) -> head v e", head=h)
    interleaved = rearrange(weight, "e (v head) -> head v e", head=h)
    bare = torch.einsum("hblv,hve->ble", context, per_head)
    if got.shape != bare.shape:
        message = f"The output is {tuple(got.shape)}, not (b, l, e) = {tuple(bare.shape)}."
        if got.ndim == 4:
            message += " There is still an output for each head: they must be added up."
        return message
    message = recognise(got, (
        (bare + bias, ""),
        (bare, "The bias is missing."),
        (bare + h * bias, "The bias is added once for each head."),
        (bare / h + bias, "That is the mean over the heads."),
        (torch.einsum("hblv,hve->ble", context, interleaved) + bias,
         "The columns of fc.weight are split in the wrong order: which changes more slowly along "
         "them, the head or the dimension within a head?"),
        (torch.einsum("hblv,hse->ble", context, per_head) + bias,
         "Both arrays are summed over their value dimension before they are multiplied: it needs "
         "the same index in both."),
        (context.reshape(b, 5, 8 * h) @ weight.T + bias,
         "A reshape treated (h, b, l, v) as (b, l, h, v): the transpose is missing.")))
    if message is None:
        message = ("The numbers are wrong. Which two indices do context and the split fc.weight "
                   "share?")
    return message


def _summed(given):
    indices = " ".join([given] if isinstance(given, str) else given).lower()
    indices = set(indices.replace("head", "h")) - set(", ")
    if "t" in indices:
        return "t was summed before: the context has no axis for keys any more."
    kept = sorted(indices & set("ble"))
    if kept:
        return f"{', '.join(kept)} is still in (b, l, e)."
    return {"hv": "", "h": "v is before the arrow, and not after it, too.",
            "v": "Then the result would have an axis for the heads."}.get(
        "".join(sorted(indices)), "Only indices of hblv and hve can be summed.")


check = Check({
    "six_equations": Exercise(_six_equations, (
        "Indices are only names. Rename them so that queries are l and keys are t, look at the "
        "result, and only then compare with hblk,hbtk->hblt and hblt,hbtv->hblv.",
        "The index that v shares with attn must be the one that softmax ran over, the last of "
        "attn.",
        "An element of the result for one query must be a sum over keys. In one of the six it is "
        "a sum over queries, and in another the keys come first in the result."),
        "You may rename indices and exchange the arrays; what counts is which axis has which "
        "index."),
    "merge": Exercise(parts({"project": _project, "summed": _summed}), (
        "The input of fc is the merged context, (b, l, (head v)). So its columns belong to heads: "
        "rearrange(weight, \"e (head v) -> ...\", head=...).",
        "Find the indices that the two arrays share. Those that are missing in (b, l, e) are "
        "summed.",
        "The number of heads is the first size of context. Add the bias once, at the end."),
        "h is summed like any other index: the output is a sum over heads, each with a matrix of "
        "its own. So you can ablate a head by leaving out its term."),
    "cards": Exercise(parts({
        "layer": judge_layer, "reorder": judge_reorder,
        "training": prediction(False, "If you reorder random parameters, they are still random. So "
                                      "how could the loss differ?"),
        "loading": prediction(True, "You have just seen both layers with the same parameters.")}), (
        "Follow one number. Our layer expects dimension d of head h of the queries in row (head d) "
        "of w_qs. Where does Dealt expect it?",
        "Four layers have parameters that belong to heads: three have rows, biases included, and "
        "the last has columns. rearrange can reorder an axis: \"(a b) ... -> (b a) ...\".",
        "For training, think of the two layers with all their random parameters: can one of them "
        "compute a function that the other cannot?"),
        "The two layers compute the same family of functions, with their parameters in another "
        "order: you can only tell them apart with copied parameters."),
})
