"""The exercises of the chapter on einsum."""

import torch
from einops import rearrange

from .. import sizes
from ._check import Check, Exercise
from ._einsum_dealt import judge_layer, judge_reorder
from ._einsum_own import judge_own
from ._judges import parts, prediction, recognise


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
    "own_einsum": Exercise(judge_own, (
        "Take the string apart first: split at \"->\", then at \",\". Which letters are there, and "
        "how long is each axis? A dict {letter: size} answers both.",
        "Begin with zeros in the shape of the result. Then let every letter run through all its "
        "values, in nested loops; np.ndindex(*sizes) does that for any number of letters.",
        "In the loop, make {letter: value}. It tells you which element to read in each array, and "
        "to which element of the result their product is added."),
        "The three rules are the whole program: the dict is rule 1, += is rule 2, and the letters "
        "after the arrow are rule 3. The loop makes as many products as all sizes multiplied."),
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
