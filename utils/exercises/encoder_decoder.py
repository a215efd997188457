"""The exercises of the chapter on the encoder and the decoder."""

from numbers import Integral

import torch

from .. import masks, reference, sizes
from ._check import Check, Exercise
from ._judges import doctor_report, incomplete, parts, predictions, recognise

OUTCOMES = ("neither", "padding", "words", "both")
SILENCE = predictions(
    {"a": "x", "b": "norm(x)", "c": "norm(x)", "d": "x", "before": 1 / 25, "after": 2.0 ** -24},
    {"a": "norm(x) goes only into f, and f returns zeros. What is left of the sum?",
     "b": "The norm applies to the whole sum, also when f adds zeros to it.",
     "c": "What replaces x before anything is added?",
     "d": {"norm(x)": "Here the norm applies to f(x), not to x. And the norm of zeros is zeros.",
           "x + norm(0)": "That is correct, but simplify it: what is the norm of zeros?",
           None: "In two of the four, x is added as it is. In the other two it is normalised, "
                 "either once or in every layer."},
     "before": {1 / 13: "How many sublayers have twelve layers?",
                1 / 24: "24 sublayers add something, but the token itself counts, too.",
                2.0 ** -24: "That is the answer for the norm after: here nothing divides x.",
                1 / 5: "The share of the variance is the share of the amplitude squared.",
                None: "The variances of independent parts add up: the token has variance 1, and "
                      "each sublayer adds 1."},
     "after": {1 / 25: "That is the answer for the norm before: here every sum is scaled back to "
                       "a variance of 1, including the token in it.",
               2.0 ** -12: "How many sublayers have twelve layers?",
               2.0 ** -23: "You counted one sum too few.",
               2.0 ** -25: "You counted one sum too many.",
               None: "After one sum, the token is one of two equal parts. And after two?"}}, 0.02)


def _lengths(outcome):
    """Return the judge of a pair of lists of lengths that should have this outcome."""
    def judge(batch):
        try:
            source, target = (list(side) for side in batch)
        except TypeError:
            return NO_LISTS
        if not all(isinstance(n, Integral) for n in source + target):
            return NO_LISTS
        if not 0 < len(source) == len(target):
            return (f"each source has one target, so both lists must be equally long; yours have "
                    f"{len(source)} and {len(target)} lengths.")
        if not all(1 <= n <= 7 for n in source + target):
            return "both sides are padded to 7 positions, so the lengths must be from 1 to 7."
        pairs = list(zip(source, target, strict=True))
        found = _outcome(any(t > s for s, t in pairs), any(t < s for s, t in pairs))
        if found != outcome:
            return f"with {source} and {target}, it is caught by {CAUGHT_BY[found]}."
        if outcome == "neither" and min(source) == 7:
            return ("no source is padded, so no mask is needed. Find a batch with padding that "
                    "neither probe catches: such a batch hides the bug.")
        return ""

    return judge


NO_LISTS = "write two lists of lengths: those of the sources and those of the targets."
CAUGHT_BY = {"neither": "neither probe", "padding": "the padding probe alone",
             "words": "the words probe alone", "both": "both probes"}


def _outcome(too_long, too_short):
    """Return which probes catch masks that are too long, or too short, for some source."""
    if too_long and too_short:
        return "both"
    if too_long:
        return "padding"
    return "words" if too_short else "neither"


class _Subset(dict):
    """Some of the parameters; the KeyError for another one lists them."""

    def __missing__(self, name):
        raise KeyError(f"{name} is not among the parameters here, which are {', '.join(self)}")


def _subset(W, letters):
    names = [f"{kind}_{letter}" for letter in letters for kind in "Wb"]
    return _Subset({name: W[name] for name in names})


def _read_once(given):
    problem = incomplete(given, ("read", "look"))
    if problem:
        return problem

    def program(x, memory, W, n_heads, keep):
        was_read = given["read"](memory, _subset(W, "kv"), n_heads)
        if keep is None:
            keep = torch.ones(len(x), 1, 1, memory.shape[1], dtype=torch.bool)
        return given["look"](x, was_read, _subset(W, "qo"), n_heads, torch.as_tensor(keep))

    x, memory = map(torch.as_tensor, sizes.sides(d_in=sizes.D_MODEL))
    W = {name: torch.as_tensor(w) for name, w in
         sizes.weights(d_in=sizes.D_MODEL, d_out=sizes.D_MODEL).items()}
    keep = masks.padding([7, 4], 7)
    out = program(x, memory, W, sizes.HEADS, keep)  # an error here names the reader's line
    if not isinstance(out, torch.Tensor):
        return f"look returns {type(out).__name__}, not a tensor (b, i, e)."
    inverted = reference.multi_head_attention(x, memory, W, sizes.HEADS, ~keep)[0]
    if recognise(out[1], [(inverted[1], "inverted")]):
        return "look: True must mean may attend, but yours attends where keep is False."
    return doctor_report(program, "layer", masks="padding", framework="torch")


check = Check({
    "whose_padding": Exercise(parts({outcome: _lengths(outcome) for outcome in OUTCOMES}), (
        "If the mask uses the target's length, it allows too many positions of the source, or too "
        "few.",
        "Too many: some query attends to padding. Too few: the last tokens are masked. Each probe "
        "catches one of the two.",
        "One example is enough to be caught by one probe. For both, take two examples with "
        "opposite mistakes."),
        "A test batch with equal lengths cannot catch this bug: make some sources longer and some "
        "shorter than their targets."),
    "silence": Exercise(SILENCE, (
        "Put f(x) = 0 into each line. LayerNorm of a row of zeros is a row of zeros (eps keeps "
        "the division finite), and the norm of a norm is the norm.",
        "The variances of independent parts add up. Norm before: 1 for the token, and 1 for each "
        "sublayer, whose input always has variance 1. How many sublayers have twelve encoder "
        "layers?",
        "Norm after: the first sum has variance 2, of which the token is half; the norm scales it "
        "to 1. How much of that half is left after the next sum?"),
        "With the norm before, the token is one of 25 equal parts; with the norm after, its share "
        "is halved 24 times, so training must first make the sublayers' outputs smaller."),
    "read_once": Exercise(_read_once, (
        "Of the four projections, two have memory as their input, and two do not.",
        "read: memory @ W_k + b_k, and the same for v, each split into heads. look: the rest of "
        "multi-head attention.",
        "split_heads and merge_heads are imported, and attention(q, k, v, keep) returns (context, "
        "weights). After the merge, only W_o and b_o follow."),
        "This is the cache of cross-attention: it is filled once and never extended, while the "
        "cache of self-attention grows with each token."),
})
