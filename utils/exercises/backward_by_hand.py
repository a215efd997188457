"""The exercises of the chapter on the gradient by hand."""

import math

import numpy as np

from utils import reference, sizes
from utils.exercises._check import Check, Exercise
from utils.exercises._cotangents import it_passed
from utils.exercises._gradients import told
from utils.exercises._norm_by_hand import norm_backward


def _grouped_backward(program):
    for heads, kv_heads in ((6, 2), (6, 3), (4, 4)):
        q, k, v = sizes.qkv(5, heads=heads, kv_heads=kv_heads)
        g = np.random.default_rng(5).standard_normal((*q.shape[:-1], v.shape[-1]))
        got = program(q.copy(), k.copy(), v.copy(), g.copy())
        known = {name: [(grads[name], why) for grads, why in _grouped(q, k, v, g) if name in grads]
                 for name in ("g_q", "g_k", "g_v")}
        why = told(got, {"g_q": q.shape, "g_k": k.shape, "g_v": v.shape}, known, _about)
        if why:
            return f"With {heads} heads of q and {kv_heads} of k and v: {why}"
    return ""


def _about(name, got, shape):
    return ("; a head of k and v that is used several times still has one gradient"
            if name != "g_q" and len(got) == 4 and got[1] > shape[1] else "")


def _grouped(q, k, v, g):
    """Yield ({name: gradient}, what is wrong with it), the right ones first."""
    kv, group = k.shape[1], q.shape[1] // k.shape[1]

    def all_of(change, grads):
        return {"g_k": change(grads[1]), "g_v": change(grads[2])}

    def summed(side):
        return side.reshape(side.shape[0], kv, group, *side.shape[2:]).sum(axis=2)

    def dealt(side):
        return side.reshape(side.shape[0], group, kv, *side.shape[2:]).sum(axis=1)
    each = reference.attention_gradient(q, k.repeat(group, axis=1), v.repeat(group, axis=1), g)
    yield {"g_q": each[0], **all_of(summed, each)}, ""
    if group == 1:
        return
    loud = [side * math.sqrt(q.shape[-1]) for side in each]
    yield {"g_q": loud[0], "g_k": summed(loud[1])}, "the scale 1/√d is missing."
    for change, why in (
            (lambda side: summed(side) / group,
             "what is used several times gets the sum of its gradients, not their average."),
            (lambda side: side[:, ::group],
             "only the first head of each group is heard; its neighbours use the same keys."),
            (lambda side: side[:, :kv],
             "only the first heads of q are heard; all that read a head of k and v count."),
            (dealt, "the heads that are added up are not those of one group: repeated copies "
                    "stand side by side.")):
        yield all_of(change, each), why
    tiled = reference.attention_gradient(
        q, *(np.concatenate([side] * group, axis=1) for side in (k, v)), g)
    for change in (dealt, summed):
        yield {"g_q": tiled[0], **all_of(change, tiled)}, (
            "neighbouring heads of q read one head of k and v. Yours deals them out in turn, as "
            "np.tile would.")


check = Check({
    "norm_backward": Exercise(norm_backward, (
        "Backwards, the bias and the gain come first: g_hat = g * gain. What remains is the "
        "backward of x̂ = (x − mean) / root.",
        "If x only moved x̂ directly, the answer would be g_hat / root. Adding one number to all "
        "features of a word changes nothing, so what g_hat wants of all features alike must be "
        "taken away. And multiplying (x − mean) by a number changes (nearly) nothing, either.",
        "Take away the mean of g_hat, and x̂ times the mean of g_hat * x̂."),
        "Two terms are taken away, one for each thing that LayerNorm is blind to. A g of ones is "
        "all “alike”: nothing of it is left, and that is why the sum sees nothing."),
    "grouped_backward": Exercise(_grouped_backward, (
        "Give each head of q its copy of k and v, and the chapter's attention_backward does the "
        "rest, but for six heads of k.",
        "A copy is a use, and what is used several times gets the sum.",
        "After np.repeat the copies of one head are neighbours: the axis of six is (2, 3), and "
        "the sum goes over the 3."),
        "To repeat forward is to add up backward, as with a bias that serves every word."),
    "it_passed": Exercise(it_passed, (
        "Compare it with softmax_backward, and with the section on what must be kept.",
        "The average is (g * context).sum(-1). When is context.sum(-1) the same?",
        "A cotangent finds a mistake if nothing in it is like anything else: not features, not "
        "words, not heads."),
        "g was forgotten, and for ones that makes no difference. What a test holds equal, it "
        "cannot see being mixed up."),
})
