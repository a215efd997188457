"""The exercises of the chapter on bugs, and ``faulty_layer``, the faulty program of the third."""

from functools import partial

import numpy as np
import torch

from .. import checks, masks, sizes
from ..attention.heads import merge_heads, split_heads
from ..attention.torch import attention
from ..doctor import faulty
from ..doctor.faulty.kernel import Masking
from ._check import Check, Exercise
from ._judges import predictions

X = torch.as_tensor(sizes.sides(d_in=sizes.D_MODEL)[1])         # (b, 7, 12)
CAUSAL = torch.as_tensor(masks.causal(sizes.N_K))[None, None]   # (1, 1, i, j)
WEIGHTS = sizes.weights(d_in=sizes.D_MODEL, d_out=sizes.D_MODEL)
HEAD_DIMENSIONS = (4, 16)


def _layer(x, keep=None, **settings):
    keep = None if keep is None else checks.to_numpy(keep)
    out = faulty.layer.layer(x.numpy(), x.numpy(), WEIGHTS, sizes.HEADS, keep, **settings)
    return torch.as_tensor(out)


# (layer, whether it is right, message if the answer says otherwise)
LAYERS = (
    (_layer, True, "It calls the right layer wrong. Do you trim the mask as well, and allow for "
                   "rounding? A sum of another length may differ in the last bit."),
    (partial(_layer, masking=Masking("invert", "keep")), False,
     "It misses an inverted mask: which two outputs should be compared?"),
    (partial(_layer, masking=Masking("ignore", "keep")), False,
     "It misses a layer that ignores its mask: do you get the outputs for the whole sequence from "
     "the program, too?"),
    (partial(_layer, torn="qkv", merge=False), False,
     "It misses heads that are torn twice. Did you change the later tokens instead of removing "
     "them?"))


def _trimmed(passes):
    for program, right, message in LAYERS:
        result = passes(program, X.clone(), CAUSAL.clone())
        if np.shape(result) or not isinstance(result, bool | np.bool_ | torch.Tensor):
            return f"It must return True or False, not {type(result).__name__}."
        if bool(result) != right:
            return message
    return ""


def _kernel(scale, q, k, v, keep=None):
    q, k, v = (checks.to_numpy(side).astype(float) for side in (q, k, v))
    return torch.as_tensor(faulty.kernel.attention(q, k, v, keep, scale=scale)[0])


KERNELS = (("that is right", "right", lambda d: d ** -0.5),
           ("without a scale", "none", lambda d: 1.0),
           ("that multiplies by 0.3 for every d", 0.3, lambda d: 0.3),
           ("that multiplies by √d", "inverse", lambda d: d ** 0.5))


def _scale_of(scale_of):
    for d in HEAD_DIMENSIONS:
        for name, scale, factor in KERNELS:
            got, want = float(scale_of(partial(_kernel, scale), d)), factor(d)
            if not abs(got - want) <= 1e-3 * want:
                return (f"For a program {name}, with d = {d}, it returns {got:.3g}, not "
                        f"{want:.3g}. {_why_wrong(got, want, d)}")
    return ""


def _why_wrong(got, want, d):
    if not np.isfinite(got):
        return "If a weight is 0 or 1, its logarithm tells nothing: use smaller scores."
    if abs(got + want) <= 1e-3 * want:
        return "Only the sign is wrong: which weight must be the numerator?"
    if abs(got - d ** -0.5) <= 1e-3:
        return "That is what the scale should be: find out what it is, by calling the program."
    return "The logarithm of the ratio of two weights is the difference of their scores."


def faulty_layer(x, memory, W, n_heads, keep=None):
    """Return the output of a faulty layer in PyTorch: exercise 3, not to be read before."""
    query, key, value = (split_heads(side @ W[f"W_{n}"] + W[f"b_{n}"], n_heads)
                         for side, n in zip((x, memory, memory), "qkk", strict=True))
    return merge_heads(attention(query, key, value, keep)[0]) @ W["W_o"] + W["b_o"]


check = Check({
    "trimmed": Exercise(_trimmed, (
        "Call the program twice: for the whole sequence with its mask, and for its first four "
        "tokens alone.",
        "Four tokens need a mask of 4 x 4: keep[..., :4, :4].",
        "Compare the first four positions of both outputs, with a tolerance such as 1e-9."),
        "A layer with torn heads depends on the length of the sequence, which trimming changes."),
    "scale_of": Exercise(_scale_of, (
        "Softmax turns a difference of scores into a ratio of weights: log(w_1 / w_2) = c (q · k_1 "
        "- q · k_2). You choose q and k, so only c is unknown.",
        "The program does not return its weights. For which values v is the context equal to them?",
        "Use one query, two keys, and the rows of an identity as values: then the context is the "
        "two weights. Keep the products near 1, so that neither weight is 0."),
        "Since you choose q and k, no matrix can hide the scale."),
    "faulty_layer": Exercise(predictions(
        {"never change": {"W_v", "b_v"}, "used instead": "W_k"},
        {"never change": "Training changes the parameters that get a gradient: use autograd to "
                         "find them.",
         "used instead": {"W_q": "A right layer with W_q in the place of W_v has another output: "
                                 "compare.",
                          None: "Which matrix must be in the place of W_v, in a right layer, to "
                                "give the same output?"}}),
        ("Set requires_grad for all eight parameters, call backward on any loss, and see which "
         "gradients are None.",
         "Put each other matrix, with its bias, in the place of W_v of a right layer, and compare "
         "with the faulty layer."),
        "It is attention with W_k in the place of W_v, so it has all the properties."),
})
