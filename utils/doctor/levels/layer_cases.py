"""The cases of a layer: small random x, memory, weights of pairwise different sizes, and masks.

A layer that takes only some sizes gets only those: ``ladder`` goes from general sizes to
d_in == d_model == d_out, and to n_q == n_k.
"""

from typing import NamedTuple

import numpy as np

from ... import masks, reference, sizes
from .. import faulty
from . import kernel_cases
from .kernel_cases import LARGE, Case

SEARCH = {"batch": 2, "n_q": 5, "n_k": 7, "heads": 3, "d_head": 4, "d_in": 11, "d_out": 13}
SECOND = {"batch": 3, "n_q": 4, "n_k": 9, "heads": 2, "d_head": 8, "d_in": 10, "d_out": 15}
CONFIRM = {"batch": 2, "n_q": 6, "n_k": 6, "heads": 5, "d_head": 6, "d_in": 7, "d_out": 11}
MASKS = {"any": ("padding", "a mask per head", "one mask for all", "a fully masked row"),
         "heads alike": ("padding", "one mask for all", "a fully masked row"),
         "padding": ("padding", "a fully masked example"), "one for all": ("one mask for all",),
         "none": ()}


class Form(NamedTuple):
    """What a layer takes: only equal widths, only n_q == n_k, only memory = x, and which masks."""

    equal_widths: bool = False
    square: bool = False
    self_attention: bool = False
    masks: str = "any"
    pre_norm: bool = False
    unbiased: str = ""   # letters of q, k, v, o without a bias
    own: bool = False    # a module, which chooses the order of its own dimensions
    epsilon: float = faulty.layer.EPSILON  # of the LayerNorm
    residual: bool = False
    post_norm: bool = False
    no_output: bool = False   # it has no W_o
    one_of: str = ""     # letters of q, k, v with ``kv`` projections, which the heads share
    kv: int = 1
    wide: bool = False   # each head is as wide as the model

    def __str__(self):
        limits = {"d_in == d_model == d_out": self.equal_widths, "n_q == n_k": self.square}
        return " and ".join(limit for limit, holds in limits.items() if holds)

    def settings(self):
        """Return the settings of ``faulty.layer.layer`` that are right for such a layer."""
        shared = (("repeat", self.kv), self.one_of) if self.one_of else None
        return {"norm": -1 if self.pre_norm else None, "residual": self.residual,
                "post_norm": self.post_norm, "epsilon": self.epsilon, "shared": shared,
                "out": "" if self.no_output else faulty.layer.LayerFaults.out}

    def kernel(self):
        """Return the Form of the kernel inside, for which d_v == d."""
        return kernel_cases.Form(self.square or self.self_attention, equal_features=True,
                                 masks="none" if self.masks == "none" else "any")


def ladder(form):
    """Return the Forms to try in turn, the most general first, within the limits of ``form``."""
    forms = [form._replace(equal_widths=e, square=s) for s in (False, True) for e in (False, True)]
    return [f for f in forms if f.square >= form.square and f.equal_widths >= form.equal_widths]


def shape(form, which, heads=None):
    """Return the sizes that a form allows; ``heads``: (h, d) of an instance, or None.

    A d of None leaves the width as it is.
    """
    size = dict(which)
    if heads:
        size["d_head"] = heads[1] or size["heads"] * size["d_head"] // heads[0]
        size["heads"] = heads[0]
    if form.equal_widths:
        size["d_in"] = size["d_out"] = size["heads"] * size["d_head"]
        size["d_head"] = size["d_in"] if form.wide else size["d_head"]
    if form.square or form.self_attention:
        size["n_q"] = size["n_k"]
    return size


def tensors(form, size, seed):
    """Return (x, memory, weights, masks by name); in self-attention memory is x."""
    n_b, n_h, n_q, n_k = (size[name] for name in ("batch", "heads", "n_q", "n_k"))
    x, memory = sizes.sides(seed, batch=n_b, n_q=n_q, n_k=n_k, d_in=size["d_in"])
    x = memory if form.self_attention else x
    weights = sizes.weights(seed, d_in=size["d_in"], d_model=n_h * size["d_head"],
                            d_out=size["d_out"])
    weights |= {f"b_{letter}": 0 * weights[f"b_{letter}"] for letter in form.unbiased}
    padding = masks.padding(sizes.lengths(seed, batch=n_b, n_k=n_k), n_k)
    some = np.random.default_rng([seed, 5]).random((n_b, n_h, n_q, n_k)) < 0.6
    some[..., 0] = True
    return x, memory, weights, {
        "no mask": None, "padding": padding, "a mask per head": some,
        "one mask for all": some[0, 0],
        "a fully masked example": padding & (np.arange(n_b) != 1)[:, None, None, None],
        "a fully masked row": padding & (np.arange(n_q) != 1)[:, None]}


def search(form, heads=None):
    """Return the Cases of the search, of two sizes, as a constant may fit one by chance."""
    names = ("no mask", *MASKS[form.masks])
    found = _some(form, SEARCH, heads, 0, names)
    x, memory, weights, n_heads, keep = found[min(1, len(found) - 1)].args
    large = weights | {"W_q": LARGE * weights["W_q"]}
    other = None if keep is None else keep[::-1]  # so each example is padded once
    return [*found, Case("large scores", (x, memory, large, n_heads, other)),
            *_some(form, SECOND, heads, 1, names[:2])]


def confirm(form, heads=None):
    """Return Cases of other sizes, which the search does not use."""
    return _some(form, CONFIRM, heads, 2, ("no mask", *MASKS[form.masks])[:3])


def _some(form, which, heads, seed, names):
    """Return the Cases of these sizes with these masks."""
    size = shape(form, which, heads)
    x, memory, weights, keeps = tensors(form, size, seed)
    return [Case(name if which is SEARCH else f"{name} with {size['n_k']} keys",
                 (x, memory, weights, size["heads"], keeps[name])) for name in names]


def problem(answer, args):
    """Return in words what is wrong with the form of an Answer, or ""."""
    x, _, weights, _, _ = args
    return kernel_cases.wrong_form(answer, "out", (*x.shape[:2], weights["W_o"].shape[1]))


def as_kernel(ask, form, d_head=None):
    """Return the kernel (q, k, v, keep) -> context inside a layer, by weights that only copy.

    The dimensions of each head are three parts, which hold q, k and v. W_q, W_k and W_v copy one
    part each to the first. ``d_head``: the head dimension of an instance, which cannot be chosen;
    q, k and v then have d_head // 3 dimensions.
    """
    def kernel(q, k, v, keep):
        n_heads, part = q.shape[1], q.shape[3]
        width = d_head or 3 * part
        x = _side(width, q, k, v) if form.self_attention else _side(width, q)
        memory = x if form.self_attention else _side(width, 0 * k, k, v)
        args = (x, memory, _copying(n_heads, width, part), n_heads, keep)
        answer = ask(*args)
        if problem(answer, args):
            return answer
        return answer._replace(out=reference.split_heads(answer.out, n_heads)[..., :part])

    return kernel


def _side(width, *parts):
    """Return (b, n, h * width): the parts, (b, h, n, d) each, side by side in each head."""
    x = np.concatenate(parts, axis=-1)
    return reference.merge_heads(np.pad(x, [(0, 0)] * 3 + [(0, width - x.shape[3])]))


def _copying(n_heads, width, part):
    """Return the weight set in which W_q, W_k, W_v copy one part each, and W_o everything."""
    weights = {f"b_{letter}": np.zeros(n_heads * width) for letter in "qkvo"}
    weights["W_o"] = np.eye(n_heads * width)
    for n, letter in enumerate("qkv"):
        copy = np.eye(width, k=-n * part) * (np.arange(width) < part)
        weights[f"W_{letter}"] = np.kron(np.eye(n_heads), copy)
    return weights
