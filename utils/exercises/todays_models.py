"""The exercises of the chapter on today's models."""

import torch

from .. import masks
from ..attention.departures import qk_norm
from ..attention.torch import attention, masked_softmax
from ..checks import difference
from ._check import Check, Exercise
from ._judges import each_prediction, parts, recognise

SURVIVES = each_prediction(
    {"a": True, "b": False, "c": True, "d": False, "e": True, "f": False, "g": True},
    {"a": "What does a rotation do to the sum of the squares of a pair of dimensions?",
     "b": "RoPE rotates two dimensions together. What if they have different gains?",
     "c": "What does QK-norm make of k, and what of 100 k?",
     "d": "The norm divides by a size, which is positive. What sign do the scores have then?",
     "e": "Softmax looks at differences of scores, and the sink is one of its scores.",
     "f": "The keys now win against the sink. Does the total weight of the keys stay?",
     "g": "How many keys has the last of four queries before it?"})

WINDOWS = (5, 1, 20, 64, 63, 65, None)


def _arguments():
    """Return (q, k, v, stored_q, stored_k, scale, keep), of pairwise different sizes."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), (8,), (8,))
    sides = [torch.randn(shape, generator=generator).double() for shape in shapes]
    keep = masks.causal(5, 7, "bottom_right") & masks.padding([7, 4], 7)
    return [*sides[:3], *(side / 3 for side in sides[3:]), 0.2, torch.as_tensor(keep)]


def _known(q, k, v, stored_q, stored_k, scale, keep):
    """Yield (context, message) of programs, the right one first."""
    def context(norms=None, factor=scale, mask=keep, values=v, gains=(stored_q, stored_k), **how):
        how = {"plus_one": True} | how
        one, other = norms or (qk_norm(side, gain, **how)
                               for side, gain in zip((q, k), gains, strict=True))
        return masked_softmax(factor * one @ other.mT, mask) @ values

    normed = [qk_norm(side, gain, plus_one=True)
              for side, gain in ((q, stored_q), (k, stored_k))]
    wide = [qk_norm(side, gain.repeat(3), whole=True, plus_one=True)
            for side, gain in ((q, stored_q), (k, stored_k))]
    root = q.shape[-1] ** 0.5
    yield context(), ""
    yield context(plus_one=False), ("it multiplies by the stored number. The file stores γ − 1, "
                                    "so by what must you multiply?")
    yield (context(gains=(1 + stored_q, 1 + stored_k)),
           "1 is added to the stored number twice, so the gain is γ + 1.")
    yield context([qk_norm(q), qk_norm(k)]), "the gains are not used."
    yield context([q, k]), "q and k are not normalised."
    yield context([normed[0], k]), "k is not normalised."
    yield context([q, normed[1]]), "q is not normalised."
    yield context(wide), ("all heads are normalised together. Over which axis must the mean of the "
                          "squares be, so that each head is normalised by itself?")
    yield (context([normed[0] / root, normed[1] / root]),
           "it divides by the root of the *sum* of the squares, not of their mean.")
    for factor, message in ((1 / root, "the scores are multiplied by 1 / √d, not by `scale`."),
                            (scale / root, "the scores are multiplied by `scale`, and by 1 / √d, "
                                           "too."),
                            (1.0, "the scores are not multiplied by `scale`. If you multiply q "
                                  "before the norm, the norm takes it out again."),
                            (1 / scale, "the scores are divided by `scale`.")):
        yield context(factor=factor), message
    yield context(mask=None), "it uses no mask."
    yield context(mask=~keep), "the mask is inverted: True = may attend."
    yield context(values=qk_norm(v)), "the values are normalised, too."


def _gemma(program):
    """Judge gemma_attention(q, k, v, stored_q, stored_k, scale, keep)."""
    arguments = _arguments()
    given = [one.clone() if isinstance(one, torch.Tensor) else one for one in arguments]
    got = program(*given)
    if not all(torch.equal(one, other) for one, other in zip(given, arguments, strict=True)
               if isinstance(one, torch.Tensor)):
        return "it changes a tensor that it was given."
    if isinstance(got, tuple):
        return "it returns several things, but it must return the context alone."
    want = next(_known(*arguments))[0]
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        found = tuple(got.shape) if hasattr(got, "shape") else type(got).__name__
        return f"it must return a tensor {tuple(want.shape)}, got {found}."
    message = recognise(got, _known(*arguments), 1e-4)
    if message is None:
        message = (f"it differs from the reference by {difference(got, want):.1g}. Compare the "
                   "lengths of q and k after the norm: without a gain, each is √d.")
    return message


def _local(window):
    """Return causal attention whose queries see ``window`` keys, or all if it is None."""
    def program(q, k, v):
        n = q.shape[-2]
        keep = masks.causal(n) if window is None else masks.window(n, n, left=window - 1)
        return attention(q, k, v, torch.as_tensor(keep))[0]
    return program


def _window(measure):
    """Judge measured_window(program) on programs of which all but one have a window."""
    limits = [None if window is None or window > 64 else window for window in WINDOWS]
    found = []
    for window in WINDOWS:
        got = measure(_local(window))
        if got is not None and not hasattr(got, "__int__"):
            return f"it must return a number or None, not {type(got).__name__}."
        found.append(None if got is None else int(got))
    if found == limits:
        return ""
    finite = [(got, want) for got, want in zip(found, limits, strict=True) if want]
    if all(got == want - 1 for got, want in finite):
        return "it counts one key too few in each window. A query attends to its own key, too."
    if all(got == want + 1 for got, want in finite):
        return "it counts one key too many in each window."
    got, want = next(pair for pair in zip(found, limits, strict=True) if pair[0] != pair[1])
    if want is None:
        which = "65 keys" if None in found else "all keys before it"
        return (f"a program whose queries attend to {which} gets {got}. Its window is wider than "
                "64 keys, or it has none, so the answer is None.")
    if (got or 64) <= want:
        return (f"a window of {want} gets {got}. How many tokens must the text have, and which of "
                "its queries has the most keys before it?")
    return (f"a window of {want} gets {got}. Which keys change the output of *one* query, and "
            "which change the output of any query?")


check = Check({
    "survives": Exercise(parts(SURVIVES), (
        "(a) and (b): a rotation keeps the length of each pair of dimensions.",
        "(c) and (d): write qk_norm(s k) with a number s, which may be negative.",
        "(e) and (f): softmax does not change if the same number is added to *all* its scores."),
        "The norm takes out a size but not a sign, softmax takes out what all scores share."),
    "gemma": Exercise(_gemma, (
        "qk_norm has an argument for gains that are stored in this way.",
        "The gain that multiplies is 1 + the stored number, for q and for k.",
        "`attention` divides by √d. Write the scores yourself: scale * q @ k.mT."),
        "The doctor finds a wrong gain with `examine(program, parts={\"qk_norm\": \"rms\"})`."),
    "window": Exercise(_window, (
        "Change the value of one key, and see whether the last query's context changes.",
        "The last of n queries has n keys. If it attends to all of them, the window may be larger.",
        "65 tokens are enough: a window of 64 then leaves out one key."),
        "The text must be longer than the window, so a test of 64 tokens finds no window of 64."),
})
