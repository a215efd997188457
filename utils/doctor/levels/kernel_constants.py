"""Switches of a kernel's constants, a scale, a mask value or a window, estimated from weights."""

from typing import NamedTuple

import numpy as np

from ... import checks, masks, reference
from .._search import Switch
from ..faulty.kernel import KEYS, Band, Masking
from . import fit, kernel_cases


class _View(NamedTuple):
    """The weights of a kernel at one size, without and with a mask, and what they depend on."""

    plain: np.ndarray
    masked: np.ndarray | None
    products: np.ndarray     # q kᵀ
    keep: np.ndarray         # the mask
    causal: np.ndarray       # the mask that the program must apply by itself
    scales: dict             # by the axes of the softmax
    cosines: dict            # the scales where the scores are cosines


def constants(ask, sizes, options, mask, masks_of="any", sinks=False):
    """Return the Switches of a scale, mask value or window that is the same at two sizes.

    ``mask``: the name of a mask that the kernel takes, or "no mask", among those of ``masks_of``.
    ``sinks``: whether a sink is looked for, too.
    """
    views = [_view(ask, size, options, mask, masks_of) for size in sizes]
    if None in views:
        return []
    found = _scales(views) + _mask_values(views, options) + (_sinks(views) if sinks else [])
    return found + _cosines(views) + _windows(views[0].plain, options)


def _view(ask, size, options, mask, masks_of):
    q, k, v, keeps = kernel_cases.tensors(size, 3, masks_of)
    keep = keeps[mask]
    plain, masked = (kernel_cases.weights_of(ask, (q, k, v, m)) for m in (None, keep))
    if plain is None:
        return None
    k = reference.repeat_heads(k, q.shape[1])
    products = q @ k.swapaxes(-1, -2)
    keep = np.broadcast_to(True if keep is None else keep, products.shape)
    causal = masks.causal(*products.shape[2:], options.align) if options.causal else True
    causal = np.broadcast_to(causal, products.shape)
    norms = [np.linalg.norm(side, axis=-1) for side in (q, k)]
    cosines = products / (norms[0][..., None] * norms[1][..., None, :])
    scales, of_cosines = (fit.scales(plain, scores, np.True_) or fit.scales(plain, scores, causal)
                          for scores in (products, cosines))
    return _View(plain, masked, products, keep, causal, scales, of_cosines)


def _shared(first, second):
    """Return {axes: scale} of the scales that are the same at both sizes."""
    return {axes: first[axes] for axes in first.keys() & second.keys()
            if checks.difference(second[axes], first[axes]) < 1e-5}


def _scales(views):
    """Return the Switch of a scale that is the same at both sizes, and not 1."""
    found = {round(scale, 6): scale for scale in _shared(*(view.scales for view in views)).values()
             if abs(scale - 1.0) > 1e-5}
    return [Switch("constant scale", {"scale": scale}, f"the scale is {scale:.6g}")
            for scale in found.values()]


def _sinks(views):
    """Return the Switch of a sink that is not 0: the same in all heads, or of as many heads."""
    if any((KEYS,) not in view.scales for view in views):
        return []
    a, b = (fit.sink(view.plain, view.products, view.causal, view.scales[KEYS,]) for view in views)
    if a is None or b is None:
        return []
    if np.ptp(a) < fit.TOLERANCE:
        a, b = a[:1], b[:1]
    if len(a) != len(b) or checks.difference(b, a) > fit.TOLERANCE or abs(a).max() < fit.TOLERANCE:
        return []
    return [Switch("sink", {"sink": a}, f"of {', '.join(f'{x:.4g}' for x in a)}")]


def _cosines(views):
    """Return the Switch of scores that are cosines, times the same factor at both sizes."""
    scale = _shared(*(view.cosines for view in views)).get((KEYS,), 0.0)
    if abs(scale) <= 1e-5:
        return []
    return [Switch("normalised queries and keys", {"unit": "l2", "scale": scale},
                   f"its scores are cosines times {scale:.6g}")]


def _mask_values(views, options):
    """Return the Switches of a finite mask value that is the same at both sizes."""
    found = {}
    for part in options.masked_parts():
        for axes in views[0].scales.keys() & views[1].scales.keys():
            first, second = (_mask_value(view, part, axes) for view in views)
            s, t = (view.scales[axes] for view in views)
            if not first or not second or first.how != second.how or 0.0 in (s, t):
                continue
            how, a, b = first.how, first.value, second.value
            for x, y, scaled in ((a, b, False), (a / s, b / t, True)):
                added = how == "add" and min(abs(x), abs(abs(x) - 1)) < 1e-6  # 0, or the mask
                if checks.difference(y, x) < 1e-4 and not added:
                    x = 0.0 if abs(x) < 1e-7 else x
                    found.setdefault((how, part), Switch(
                        "mask value too high", {"masking": Masking(how, part, x, scaled)},
                        mask_value_text(how, f"{x:.6g}")))
    return [*found.values()]


def mask_value_text(how, value):
    """Return in words what a program does to masked scores; ``how`` is "fill" or "add"."""
    if how == "fill":
        return f"masked scores are set to {value}"
    return f"{value} is added to masked scores"


def _mask_value(view, part, axes):
    weights = view.plain if part == "causal" else view.masked
    if weights is None:
        return None
    keep = {"both": view.keep & view.causal, "keep": view.keep, "causal": view.causal}[part]
    where = view.causal if part == "keep" else np.ones(keep.shape, dtype=bool)
    return fit.mask_value(weights, view.products, keep, where, axes, view.scales[axes])


def _windows(weights, options):
    """Return the Switches of a band of positions outside of which all weights are zero."""
    found = []
    square = weights.shape[2] == weights.shape[3]
    for align in ("top_left",) if square else ("top_left", "bottom_right"):
        left, right = fit.reach(weights, align)
        if (left, right) == (None, None) or (square and left == right == 0):  # "weights not used"
            continue
        if options.causal and (left is None or left <= 0):
            continue
        ends = [f"{n} {side}" for n, side in ((left, "before"), (right, "after")) if n is not None]
        detail = f"a query attends only to keys up to {' and '.join(ends)} its own position"
        if (left, right) == (None, 0):
            detail = ("a query attends to no key after its own position, as with a causal mask; if "
                      "that is intended, pass `causal=True`")
        settings = {"band": Band(left, right)} | ({} if square else {"align": align})
        found.append(Switch("window", settings, detail))
    return found
