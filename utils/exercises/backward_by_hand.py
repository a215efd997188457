"""The exercises of the chapter on the gradient by hand."""

import math

import numpy as np

from .. import reference, sizes
from ..checks import difference, to_numpy
from ._backward_by_hand_gradients import judge_gradients, norm_backward
from ._check import Check, Exercise
from ._judges import each_prediction, parts


def _grouped_backward(program):
    for heads, kv_heads in ((6, 2), (6, 3), (4, 4)):
        q, k, v = sizes.qkv(5, heads=heads, kv_heads=kv_heads)
        grad_out = np.random.default_rng(5).standard_normal((*q.shape[:-1], v.shape[-1]))
        got = program(q.copy(), k.copy(), v.copy(), grad_out.copy())
        known = {name: [(grads[name], message) for grads, message in _known(q, k, v, grad_out)
                        if name in grads] for name in ("g_q", "g_k", "g_v")}
        shapes = {"g_q": q.shape, "g_k": k.shape, "g_v": v.shape}
        message = judge_gradients(got, shapes, known, _about_shape)
        if message:
            return f"With {heads} heads of q and {kv_heads} of k and v: {message}"
    return ""


def _about_shape(name, got, shape):
    if name == "g_q" or len(got) != 4 or got[1] <= shape[1]:
        return ""
    return "; a head of k and v that is used several times still has one gradient"


def _known(q, k, v, grad_out):
    """Yield ({name: gradient}, message), the right ones first."""
    kv, group = k.shape[1], q.shape[1] // k.shape[1]

    def of_k_and_v(change, grads):
        return {"g_k": change(grads[1]), "g_v": change(grads[2])}

    def neighbours(side):
        return side.reshape(side.shape[0], kv, group, *side.shape[2:]).sum(axis=2)

    def every_nth(side):
        return side.reshape(side.shape[0], group, kv, *side.shape[2:]).sum(axis=1)

    each = reference.attention_gradient(
        q, k.repeat(group, axis=1), v.repeat(group, axis=1), grad_out)
    yield {"g_q": each[0], **of_k_and_v(neighbours, each)}, ""
    if group == 1:
        return
    unscaled = [side * math.sqrt(q.shape[-1]) for side in each]
    yield {"g_q": unscaled[0], "g_k": neighbours(unscaled[1])}, "the scale 1/√d is missing."
    for change, message in (
            (lambda side: neighbours(side) / group,
             "the gradient of a shared head is the sum over its uses, not their mean."),
            (lambda side: side[:, ::group],
             "you count only the first head of each group; the others use the same keys."),
            (lambda side: side[:, :kv],
             "you count only the first heads of q, but all heads that use a head of k and v "
             "count."),
            (every_nth, "you add heads of different groups: repeated copies are neighbours.")):
        yield of_k_and_v(change, each), message
    tiled = reference.attention_gradient(
        q, *(np.concatenate([side] * group, axis=1) for side in (k, v)), grad_out)
    for change in (every_nth, neighbours):
        yield {"g_q": tiled[0], **of_k_and_v(change, tiled)}, (
            "neighbouring heads of q must share a head of k and v. In yours, heads n and "
            f"n + {kv} do, as with np.tile.")


Q, K, V = sizes.qkv(11)
CONTEXT, WEIGHTS = reference.attention(Q, K, V)
TOLERANCE = 1e-6
LINE_AND_GRADIENT = each_prediction({"line": 3, "right": "v"}, {
    "line": {
        1: "Line 1 is the rule for a product, and its result is (b, h, j, d), as for values.",
        2: "Line 2 is the rule for a product, and its result is (b, h, i, j), as for weights.",
        4: "Line 4 is the softmax backward of this chapter, if `average` really is the average.",
        5: "The scale is right, and it is applied to the gradient of the scores.",
        6: "Scores (i, j) times keys (j, d), and transposed, times queries: as in the chapter.",
        None: "Answer one of the numbers 1 to 6."},
    "right": {"q": "q's gradient goes through the scores, and so through the wrong line.",
              "k": "k's gradient goes through the scores, and so through the wrong line.",
              None: "Answer q, k or v."}})


def _gradients(average, grad_out):
    """Return the gradients of q, k, v with this average."""
    g_scores = WEIGHTS * (grad_out @ V.mT - average) / math.sqrt(Q.shape[-1])
    return g_scores @ K, g_scores.mT @ Q, WEIGHTS.mT @ grad_out


def _average(grad_out):
    return (grad_out * CONTEXT).sum(axis=-1, keepdims=True)


def _wrong_programs(grad_out):
    """Yield (gradients of a wrong program, why grad_out does not catch it)."""
    total = CONTEXT.sum(axis=-1, keepdims=True)
    yield _gradients(total, grad_out), (
        "with yours, the program of this exercise still agrees with the right one. When is "
        "context.sum(-1) the average?")
    yield _gradients(total * grad_out.mean(axis=-1, keepdims=True), grad_out), (
        "it catches this program, but not a similar one with context.sum(-1) * g.mean(-1), which "
        "is right if all numbers of g within a row are equal.")
    without_last = _average(grad_out)
    without_last[-1, -1] = 0
    yield _gradients(without_last, grad_out), (
        "it misses a program without the average in the last head of the last example, because "
        "yours is zero there.")
    for axis, name in ((2, "token"), (1, "head"), (0, "example")):
        rolled = np.roll(grad_out, 1, axis)
        yield _gradients(_average(rolled), rolled), (
            f"it misses a program that gives each {name} the upstream gradient of its neighbour, "
            f"because in yours all {name}s have the same.")


def _grad_out(function):
    """Judge a function from a shape to an upstream gradient: does it catch the wrong programs?"""
    if not callable(function):
        return "it must be a function of the shape, not an array."
    grad_out = function(CONTEXT.shape)
    if grad_out is None:
        return "the function returns None: is a return missing?"
    grad_out = to_numpy(grad_out).astype(np.float64)
    if grad_out.shape != CONTEXT.shape:
        return f"for the shape {CONTEXT.shape} it returns {grad_out.shape}."
    if not np.isfinite(grad_out).all():
        return "it is not finite, so no gradients can be compared."
    if (grad_out == 1).all():
        return "it is all ones, which means `context.sum()`, and the program passes that."
    if 0 < abs(grad_out).max() < 1e-3:
        return ("its numbers are so small that a test takes the difference of two gradients for "
                "rounding.")
    right = _gradients(_average(grad_out), grad_out)
    for wrong, message in _wrong_programs(grad_out):
        if all(difference(*pair) < TOLERANCE for pair in zip(wrong, right, strict=True)):
            return message
    return ""


check = Check({
    "norm_backward": Exercise(norm_backward, (
        "In the backward pass, the bias and the gain come first: g_hat = g * gain. What remains is "
        "the backward of x̂ = (x − mean) / root.",
        "If x changed x̂ only directly, the gradient would be g_hat / root. But if you add one "
        "number to all dimensions of a token, nothing changes, so that part of g_hat has no "
        "effect. And if you multiply (x − mean) by a number, (nearly) nothing changes, either.",
        "Subtract the mean of g_hat, and x̂ times the mean of g_hat * x̂."),
        "You subtract two terms, one for each change that LayerNorm ignores. If g and gain are "
        "ones, nothing is left of g, so the gradient of the sum is zero."),
    "grouped_backward": Exercise(_grouped_backward, (
        "Give each head of q its copy of k and v. Then the chapter's attention_backward returns "
        "gradients for six heads of k.",
        "Every copy is one use of a head, and the gradients of its uses are added.",
        "After np.repeat the copies of one head are neighbours: split the axis of six into (2, 3), "
        "and sum over the 3."),
        "What is repeated in the forward pass is added up in the backward pass, as for a bias that "
        "all tokens share."),
    "it_passed": Exercise(parts(LINE_AND_GRADIENT | {"grad_out": _grad_out}), (
        "Compare it with softmax_backward, and with the section on what must be kept.",
        "The average is (g * context).sum(-1). When is context.sum(-1) the same?",
        "An upstream gradient catches a mistake if no two parts of it are equal: not two "
        "dimensions, not two tokens, not two heads."),
        "The line does not use g, and for a g of ones that makes no difference. A test cannot "
        "catch a mix-up of things that are equal in it."),
})
