"""The exercises of the chapter on bugs, and the patient of the third."""

from functools import partial

import numpy as np
import torch

from utils import checks, masks, sizes
from utils.attention.heads import merge_heads, split_heads
from utils.attention.torch import attention
from utils.doctor import faulty
from utils.doctor.faulty.kernel import Masking
from utils.exercises._check import Check, Exercise, predictions

X = torch.as_tensor(sizes.sides(d_in=sizes.D_MODEL)[1])         # (b, 7, 12)
CAUSAL = torch.as_tensor(masks.causal(sizes.N_K))[None, None]   # (1, 1, i, j)
WEIGHTS = sizes.weights(d_in=sizes.D_MODEL, d_out=sizes.D_MODEL)
WIDTHS = (4, 16)


def _layer(x, keep=None, **settings):
    keep = None if keep is None else checks.to_numpy(keep)
    out = faulty.layer.layer(x.numpy(), x.numpy(), WEIGHTS, sizes.HEADS, keep, **settings)
    return torch.as_tensor(out)


LAYERS = (
    (_layer, True, "It calls the right layer sick. Is the mask trimmed as well, and is there room "
                   "for rounding? A sum of other length may differ in the last bit."),
    (partial(_layer, masking=Masking("invert", "keep")), False,
     "It finds nothing wrong with a mask upside down: what should be compared with what?"),
    (partial(_layer, masking=Masking("ignore", "keep")), False,
     "It finds nothing wrong with a layer that ignores its mask: do the outputs of the whole "
     "sentence come from the program, too?"),
    (partial(_layer, torn="qkv", merge=False), False,
     "It finds nothing wrong with heads torn twice. Did you change the later words, or are they "
     "really gone?"))


def _trimmed(check_of):
    for program, right, why in LAYERS:
        said = check_of(program, X.clone(), CAUSAL.clone())
        if np.shape(said) or not isinstance(said, bool | np.bool_ | torch.Tensor):
            return f"It returns {type(said).__name__}; True or False is asked for."
        if bool(said) != right:
            return why
    return ""


def _kernel(scale, q, k, v, keep=None):
    q, k, v = (checks.to_numpy(side).astype(float) for side in (q, k, v))
    return torch.as_tensor(faulty.kernel.attention(q, k, v, keep, scale=scale)[0])


KERNELS = (("that is right", "right", lambda d: d ** -0.5),
           ("without a scale", "none", lambda d: 1.0),
           ("that multiplies by 0.3 for every d", 0.3, lambda d: 0.3),
           ("that multiplies by the root of d", "inverse", lambda d: d ** 0.5))


def _scale_of(scale_of):
    for d in WIDTHS:
        for words, scale, factor in KERNELS:
            got, want = float(scale_of(partial(_kernel, scale), d)), factor(d)
            if abs(got - want) <= 1e-3 * want:
                continue
            told = f"For a program {words}, with d = {d}, it answers {got:.3g}, not {want:.3g}."
            if not np.isfinite(got):
                return told + " A weight of 0 or 1 tells nothing: ask with smaller scores."
            if abs(got + want) <= 1e-3 * want:
                return told + " Only the sign is wrong: whose weight is on top?"
            if abs(got - d ** -0.5) <= 1e-3:
                return told + " It says what the scale should be: ask the program."
            return told + " The logarithm of two weights' ratio is the difference of their scores."
    return ""


def patient(x, memory, W, n_heads, keep=None):
    """Return the answers of a layer in PyTorch that is ill: exercise 3, not to be read before."""
    query, key, value = (split_heads(side @ W[f"W_{n}"] + W[f"b_{n}"], n_heads)
                         for side, n in zip((x, memory, memory), "qkk", strict=True))
    return merge_heads(attention(query, key, value, keep)[0]) @ W["W_o"] + W["b_o"]


check = Check({
    "trimmed": Exercise(_trimmed, (
        "Ask twice: for the whole sentence under its mask, and for its first four words alone.",
        "Four words need a mask of 4 x 4: keep[..., :4, :4].",
        "Compare the first four places of both answers, up to a rounding such as 1e-9."),
        "A torn layer depends on how long the sentence is, and that is what trimming changes."),
    "scale_of": Exercise(_scale_of, (
        "Softmax turns a difference of scores into a ratio of weights: log(w_1 / w_2) = c (q · k_1 "
        "- q · k_2). You choose q and k, so only c is unknown.",
        "The program returns no weights. Which values v make its context equal to them?",
        "One query, two keys, and values that are the rows of an identity: the context is the two "
        "weights. Keep the products near 1, so that neither is 0."),
        "Whoever chooses q and k has no weights to hide behind."),
    "patient": Exercise(predictions(
        {"never change": {"W_v", "b_v"}, "used instead": "W_k"},
        {"never change": "Training changes what has a gradient: ask autograd.",
         "used instead": {"W_q": "A right layer with W_q in the place of W_v answers otherwise: "
                                 "compare.",
                          None: "What must W_v be, in a right layer, to give the same answers?"}}),
        ("Make all eight weights require a gradient, send any loss back, and look which gradients "
         "are None.",
         "Put each other matrix, with its bias, in the place of W_v of a right layer, and compare "
         "with the patient."),
        "It is attention with W_k in the place of W_v, so no property can object."),
})
