"""The exercises of the page on mask conventions."""

import numpy as np
import torch

from .. import reference
from ..checks import to_numpy
from ..masks import causal
from ._check import Check, Exercise

WORDS = "attend", "drop", "added"


def _programs():
    """Yield (its convention, an attention with a bool mask of that convention)."""
    def attend(q, k, v, mask):
        return reference.attention(q, k, v, keep=_bool(mask))[0]

    def drop(q, k, v, mask):
        return reference.attention(q, k, v, keep=~_bool(mask))[0]

    def added(q, k, v, mask):
        return reference.attention(q, k, v, bias=_bool(mask).astype(float))[0]

    yield from zip(WORDS, (attend, drop, added), strict=True)


def _bool(mask):
    """Return a mask as a NumPy array; raise TypeError unless it is bool."""
    mask = to_numpy(mask)
    if mask.dtype != bool:
        raise TypeError(f"this attention takes a bool mask, not {mask.dtype}")
    return mask


def _convention(program):
    """Judge convention(attention) -> "attend", "drop" or "added"."""
    found = {}
    for right, attention in _programs():
        found[right] = got = program(attention)
        if not isinstance(got, str) or got not in WORDS:
            return f'It must return "attend", "drop" or "added", not {got!r}.'
    if found == dict(zip(WORDS, WORDS, strict=True)):
        return ""
    if len(set(found.values())) == 1:
        return f"It returns {found['attend']!r} for every program. Compare their outputs."
    if (found["attend"], found["drop"]) == ("drop", "attend"):
        return ('"attend" and "drop" are the wrong way round: with "attend", the keys whose mask '
                "is False get no weight.")
    if found["added"] != "added":
        return (f"It returns {found['added']!r} for a program that adds the mask. There, every key "
                "keeps some weight.")
    wrong = next(word for word in WORDS if found[word] != word)
    return f"It returns {found[wrong]!r} for a program in which True means {wrong}."


def _layer_masks(program):
    """Judge layer_masks(attention_mask) -> {"src_mask": …, "src_key_padding_mask": …}."""
    for rows in ([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]],
                 [[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]]):
        tokens = torch.tensor(rows)
        got = program(tokens.clone())
        if not isinstance(got, dict) or set(got) != {"src_mask", "src_key_padding_mask"}:
            return "It must return a dict with the keys 'src_mask' and 'src_key_padding_mask'."
        for name, keep in (("src_mask", torch.as_tensor(causal(tokens.shape[1]))),
                           ("src_key_padding_mask", tokens.bool())):
            message = _one_mask(got[name], keep)
            if message:
                return f"{name}: {message}"
        if len({mask.dtype for mask in got.values()}) > 1:
            return "The two masks have different dtypes, which PyTorch warns of. Make both bool."
    return ""


def _one_mask(mask, keep):
    """Return "" for a mask that drops what is not in keep, bool or to be added; else a message."""
    if not isinstance(mask, torch.Tensor):
        return f"it must be a tensor, not {type(mask).__name__}."
    if mask.shape != keep.shape:
        return f"the shape is {tuple(mask.shape)}, not {tuple(keep.shape)}."
    if mask.is_floating_point() and not ((mask == 0) | mask.isneginf()).all():
        return "floats are added to the scores, and these mask nothing. Make it bool."
    if not mask.is_floating_point() and mask.dtype != torch.bool:
        return f"it is {mask.dtype}, for which the layer raises an error. Make it bool."
    seen = mask == 0 if mask.is_floating_point() else ~mask
    if (seen == keep).all():
        return ""
    if (seen == ~keep).all():
        return "it is inverted: in this layer, True means drop."
    if seen.shape[0] == seen.shape[1] and not seen.diagonal().any():
        return "a token may attend to itself, so the diagonal must not be dropped."
    place = tuple(np.argwhere((seen != keep).numpy())[0].tolist())
    return f"element {place} is {'dropped' if keep[place] else 'not dropped'}, which is wrong."


check = Check({
    "convention": Exercise(_convention, (
        "If the value of key j is the j-th unit vector, the context is the list of attention "
        "weights.",
        "Give the program a mask that is True for some keys and False for others. Which keys get "
        "the weight 0?",
        'If the False keys get 0, True means attend. If the True keys get 0, it means drop. And if '
        "no key gets 0?"),
        "You read a convention off a program without its source or its manual."),
    "layer_masks": Exercise(_layer_masks, (
        "In nn.TransformerEncoderLayer, True means drop in both masks. src_mask is (i, j), and "
        "src_key_padding_mask is (b, j).",
        "Which tokens must a query not attend to? Those after it: torch.ones(n, n).triu(1).",
        "attention_mask == 0 is a bool tensor. Where is it True?"),
        "Both masks are bool and True where a key is dropped, so PyTorch has nothing to convert."),
})
