"""The judges of the first two milestones: attention and the causal mask."""

import numpy as np
import torch

from ... import masks, reference
from ...checks import difference, to_numpy
from .._judges import doctor_report, recognise
from . import probes

TOLERANCE = 1e-6  # a softmax in float32 is right, too


def attention(answer):
    """Judge attention(q, k, v, keep) -> context."""
    with probes.seeded():
        q, k, v = (torch.randn(2, 3, n, d, dtype=torch.float64)
                   for n, d in ((4, 8), (6, 8), (6, 5)))
        out = answer(q, k, v, torch.ones(4, 6, dtype=torch.bool))
        if isinstance(out, tuple | list):
            return ("attention must return one tensor, the context; yours returns "
                    f"{len(out)} values.")
        if not isinstance(out, torch.Tensor):
            return ("attention must return a tensor, the context; yours returns "
                    f"{'None: is `return` missing?' if out is None else type(out).__name__ + '.'}")
        if out.shape == (2, 3, 4, 6):
            return ("For 4 queries, 6 keys and d_v = 5 it returns (…, 4, 6), the weights; the "
                    "context is their product with v, (…, 4, 5).")
        if out.shape != (2, 3, 4, 5):
            return ("For q (2, 3, 4, 8), k (2, 3, 6, 8) and v (2, 3, 6, 5), the context must have "
                    f"the shape (2, 3, 4, 5), not {tuple(out.shape)}.")
        return (_other_axis(out, q, k, v) or _inverted(answer, q, k, v) or _named(answer)
                or _values(answer, q, k, v))


def _other_axis(out, q, k, v):
    """Return what is wrong if softmax runs over axis 0 or 1, the examples or the heads."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    for axis, name in ((0, "the examples"), (1, "the heads")):
        if difference(out, scores.softmax(dim=axis) @ v) < TOLERANCE:
            return (f"Your softmax runs over axis {axis}, {name}. The weights of a query must sum "
                    "to 1 over the keys, the last axis: -1 → chapter scaled_dot_product.")
    return ""


def _inverted(answer, q, k, v):
    """Return what is wrong if the context is that of the opposite mask.

    The doctor would ask for no mask, too, for which the opposite gives NaN only.
    """
    keep = torch.arange(24).reshape(4, 6) % 5 < 3  # no row is all True or all False
    opposite = reference.attention(q, k, v, ~keep)[0]
    if not difference(answer(q, k, v, keep), opposite) < TOLERANCE:  # NaN is no match
        return ""
    return ("Your mask is inverted: a query attends to the keys where keep is False. True must "
            "mean that it may attend; masked_fill fills where *its* mask is True → chapter masks.")


def _named(answer):
    """Return the doctor's report on attention, "" if it is healthy."""
    def called(q, k, v, keep):
        full = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        return answer(q, k, v, full if keep is None else keep)

    called.__name__ = "attention"
    return doctor_report(called, framework="torch")


def _values(answer, q, k, v):
    """Compare with the reference on data with the axes (b, h) in front, with one, and with none."""
    keep = torch.rand(2, 1, 4, 6) < 0.6
    keep[..., 0] = True  # no row is fully masked
    for axes, case in (("(b, h, i, d)", (q, k, v, keep)),
                       ("(h, i, d)", (q[0], k[0], v[0], keep[0])),
                       ("(i, d)", (q[0, 0], k[0, 0], v[0, 0], keep[0, 0]))):
        expected = reference.attention(*case)[0]
        context = answer(*(x.clone() for x in case))
        message = probes.wrong_tensor(context, expected.shape, f"For q {axes}, the context")
        if not message and difference(context, expected) > TOLERANCE:
            message = (f"For q {axes}, the context differs from the reference by "
                       f"{difference(context, expected):.2g}. Which axes do your lines count on? "
                       "Count from the last one: -1 and -2 → chapter scaled_dot_product.")
        if message:
            return message
    return ""


def mask(answer):
    """Judge causal(n) -> keep."""
    for n in (5, 1, 8):
        keep = answer(n)
        if not isinstance(keep, torch.Tensor):
            return f"causal({n}) must be a tensor, not of type {type(keep).__name__}."
        if tuple(keep.shape) != (n, n):
            return f"causal({n}) must have the shape ({n}, {n}), not {tuple(keep.shape)}."
        if keep.dtype != torch.bool:
            return (f"causal({n}) must be bool, True = may attend, not {keep.dtype}: ~keep of "
                    "numbers is not the opposite mask → chapter masks.")
        message = recognise(keep, _known_masks(n))
        if message is None:
            i, j = np.argwhere(to_numpy(keep) != masks.causal(n))[0]
            message = (f"In causal({n}), query {i} {'may' if j <= i else 'may not'} attend to key "
                       f"{j}; yours says the opposite → chapter masks.")
        if message:
            return message
    return ""


def _known_masks(n):
    """Yield (keep, message), the right mask first."""
    right = masks.causal(n)
    yield right, ""
    yield ~right, ("Your mask is inverted: it is True for later keys, and True must mean that the "
                   "query may attend → chapter masks.")
    yield right.T, ("Your triangle is transposed: query 0 attends to every key, and the last "
                    "query to itself alone. Row i belongs to query i → chapter masks.")
    yield np.tri(n, k=-1, dtype=bool), (
        "Your mask is off by one: no query may attend to itself, and query 0 has no key at all, "
        "so its softmax is NaN → chapter masks.")
    yield np.tri(n, k=1, dtype=bool), (
        "Your mask is off by one: each query also attends to the next key, which holds the token "
        "that it must predict → chapter decoder_mask.")
    yield np.ones((n, n), dtype=bool), "Your mask is True everywhere: it masks no later key."
