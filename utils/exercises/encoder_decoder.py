"""The exercises of the chapter on the encoder and the decoder."""

from numbers import Integral

import torch

from utils import masks, reference, sizes
from utils.checks import difference
from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, examined, predictions, untouched

AGAIN = ("Two of the four have no path on which x goes through untouched: it is normalised again "
         "and again, or once and for all.")
SILENT = predictions(
    {"a": "x", "b": "norm(x)", "c": "norm(x)", "d": "x", "before": 1 / 25, "after": 2.0 ** -24},
    {"a": "norm(x) goes into f only, and f says nothing. What is left of the sum?",
     "b": "The norm stands around the whole sum, also when f adds nothing to it.",
     "c": "What is x replaced by, before anything is added?",
     "d": {"norm(x)": "It is f that is normalised here, not x. And the norm of zeros is zeros.",
           "x + norm(0)": "True, and what is the norm of zeros?", None: AGAIN},
     "before": {1 / 13: "Twelve layers of how many sublayers?",
                1 / 24: "24 sublayers say something. And the word itself?",
                2.0 ** -24: "That is the other one: here nothing divides what is there already.",
                1 / 5: "Of the variance, that is the share of the amplitude squared.",
                None: "The variances of independent parts add up: that of the word is 1, and each "
                      "sublayer brings 1 more."},
     "after": {1 / 25: "That is the other one: here every sum is scaled back to a variance of 1, "
                       "and the word in it with the rest.",
               2.0 ** -12: "Twelve layers of how many sublayers?",
               2.0 ** -23: "One sum too few.", 2.0 ** -25: "One sum too many.",
               None: "After one sum, the word is one of two equal parts. After two?"}}, 0.02)
NOTICED = ("nobody", "padding", "words", "both")
WHO = {(False, False): "nobody", (True, False): "the padding probe alone",
       (False, True): "the words probe alone", (True, True): "both probes"}


def _batches(given):
    if not isinstance(given, dict) or set(given) != set(NOTICED):
        return f"The answer is a dict with the keys {', '.join(map(repr, NOTICED))}."
    still = [name for name in NOTICED if untouched(given[name])]
    lines = [f"{name}: {why}" for name in NOTICED if name not in still
             and (why := _batch(name, given[name]))]
    return listed(lines + [f"Still open: {', '.join(still)}."] * bool(still))


def _batch(name, batch):
    """Return what is wrong with a pair of lists of lengths, "" if nothing is."""
    try:
        source, target = ([int(n) for n in side if isinstance(n, Integral)] for side in batch)
        full = [len(side) for side in batch] == [len(source), len(target)]
    except (TypeError, ValueError):
        full = False
    if not full:
        return "write two lists of lengths, that of the sources and that of the targets."
    if not 0 < len(source) == len(target):
        return (f"each source has one target, so the lists are equally long; yours have "
                f"{len(source)} and {len(target)} lengths.")
    if not all(1 <= n <= 7 for n in source + target):
        return "both sides are padded to 7 places, and a text has at least one: lengths 1 to 7."
    heard = any(t > s for s, t in zip(source, target, strict=True))
    missed = any(t < s for s, t in zip(source, target, strict=True))
    if (heard, missed) != (name in ("padding", "both"), name in ("words", "both")):
        return f"with {source} and {target}, it is noticed by {WHO[heard, missed]}."
    if name == "nobody" and min(source) == 7:
        return ("no source is padded at all, so that no mask is needed. The batch to be afraid of "
                "has padding, and still nobody notices.")
    return ""


class _Half(dict):
    """Some of the weights; the others are not there, and it says so."""

    def __missing__(self, name):
        raise KeyError(f"{name} is not among the weights here, which are {', '.join(self)}")


def _read_once(given):
    if not isinstance(given, dict) or set(given) != {"read", "look"}:
        return "The answer is a dict with the keys 'read', 'look'."
    still = [name for name, part in given.items() if untouched(part)]
    if still:
        return f"Still open: {', '.join(still)}."

    def program(x, memory, W, n_heads, keep):
        was_read = given["read"](memory, _half(W, "kv"), n_heads)
        if keep is None:
            keep = torch.ones(len(x), 1, 1, memory.shape[1], dtype=torch.bool)
        return given["look"](x, was_read, _half(W, "qo"), n_heads, torch.as_tensor(keep))

    x, memory = map(torch.as_tensor, sizes.sides(d_in=sizes.D_MODEL))
    W = {name: torch.as_tensor(w) for name, w in
         sizes.weights(d_in=sizes.D_MODEL, d_out=sizes.D_MODEL).items()}
    keep = masks.padding([7, 4], 7)
    out = program(x, memory, W, sizes.HEADS, keep)  # raises here, where the reader sees it
    if not isinstance(out, torch.Tensor):
        return f"look returns {type(out).__name__}, not a tensor (b, i, e)."
    opposite = reference.multi_head_attention(x, memory, W, sizes.HEADS, ~keep)[0]
    if out.shape == opposite.shape and difference(out[1], opposite[1]) < 1e-9:
        return "look: True = may attend, and yours attends where keep is False."
    return examined(program, "layer", masks="padding", framework="torch")


def _half(W, letters):
    return _Half({f"{kind}_{letter}": W[f"{kind}_{letter}"] for letter in letters
                  for kind in "Wb"})


check = Check({
    "whose_padding": Exercise(_batches, (
        "With the target's length for the source, a source gets too many places, or too few.",
        "Too many: padding is heard. Too few: words at the end are not heard. Each probe notices "
        "one of the two.",
        "One example suffices to be noticed. For both, take two examples that are wrong in "
        "opposite ways."),
        "A test batch of equal lengths proves nothing: make every source both longer and shorter "
        "than some target."),
    "silence": Exercise(SILENT, (
        "Put f(x) = 0 into each line. LayerNorm of a row of zeros is a row of zeros (eps keeps "
        "the division finite), and the norm of a norm is the norm.",
        "Independent parts: variances add up. Before: 1 for the word, and 1 for each sublayer, "
        "whose input always has variance 1. How many sublayers have twelve encoder layers?",
        "After: the first sum has variance 2, of which the word is half; the norm makes it 1 "
        "again. What does the next sum leave of that half?"),
        "With the norm before, a word is one voice among 25; with the norm after, it has been "
        "halved 24 times, and training has to make the sublayers quieter before depth pays."),
    "read_once": Exercise(_read_once, (
        "Of the four projections, two have memory as their input, and two do not.",
        "read: memory @ W_k + b_k, and v alike, each split into heads. look: the rest of "
        "multi-head attention.",
        "split_heads and merge_heads are imported, and attention(q, k, v, keep) returns (context, "
        "weights). Nothing but W_o and b_o comes after the merge."),
        "That is the cache of cross-attention: filled once, never extended, while the one of "
        "self-attention grows with each character."),
})
