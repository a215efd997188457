"""The cases of a kernel: small random q, k, v of pairwise different sizes, and masks.

A program that takes only some sizes gets only those: ``ladder`` goes from general sizes to
n_q == n_k, and to values with as many dimensions as queries.
"""

from typing import NamedTuple

import numpy as np

from ... import masks, sizes

SEARCH = {"batch": 2, "heads": 3, "n_q": 5, "n_k": 7, "d_head": 4, "d_v": 6}
SECOND = {"batch": 3, "heads": 2, "n_q": 4, "n_k": 9, "d_head": 8, "d_v": 3}
CONFIRM = {"batch": 2, "heads": 5, "n_q": 6, "n_k": 6, "d_head": 10, "d_v": 7}
GROUPED = {2: (4, 2), 3: (6, 2), 5: (6, 3)}  # heads: (heads of q, heads of k and v)
EXTREME = {"large scores", "scores far below 0"}  # a softmax without its shift overflows
# The name of an arbitrary mask, by the masks that a kernel takes.
ARBITRARY = {"any": "a mask per head", "heads alike": "a mask per example",
             "padding": "scattered padding", "lengths": "other lengths", "none": "no mask"}
LARGE = 30  # the scores of a trained model reach this many standard deviations


class Form(NamedTuple):
    """What a kernel takes: only n_q == n_k, only d_v == d, fewer heads of k and v, which masks."""

    square: bool = False
    equal_features: bool = False
    grouped: bool = False
    masks: str = "any"    # or "heads alike", "padding", "none"

    def __str__(self):
        limits = {"n_q == n_k": self.square, "d_v == d": self.equal_features}
        return " and ".join(limit for limit, holds in limits.items() if holds)


class Case(NamedTuple):
    """One call: its name and its arguments, (q, k, v, keep) for a kernel."""

    name: str
    args: tuple


def ladder(square=False, grouped=False, masks="any"):
    """Return the Forms to try in turn, the most general first."""
    forms = [Form(s, e, grouped, masks) for e in (False, True) for s in (False, True)]
    return [form for form in forms if form.square or not square]


def shape(form, which):
    """Return the sizes ``which``, one of SEARCH, SECOND and CONFIRM, as the form allows them."""
    size = dict(which)
    if form.grouped:
        size["heads"], size["kv_heads"] = GROUPED[which["heads"]]
    if form.square:
        size["n_q"] = size["n_k"]
    if form.equal_features:
        size["d_v"] = size["d_head"]
    return size


def tensors(size, seed, masks_of="any"):
    """Return (q, k, v, masks by name) of these sizes; ``masks_of``: a key of ARBITRARY."""
    q, k, v = sizes.qkv(seed, **size)
    n_b, n_h, n_q, n_k = *q.shape[:3], k.shape[2]
    padding = masks.padding(sizes.lengths(seed, batch=n_b, n_k=n_k), n_k)
    alike = {"heads alike": (n_b, 1, n_q, n_k), "padding": padding.shape, "lengths": padding.shape}
    some = np.random.default_rng([seed, 4]).random(alike.get(masks_of, (n_b, n_h, n_q, n_k))) < 0.6
    some[..., 0] = True
    if masks_of == "lengths":
        some = padding[::-1]
    fully_masked = np.broadcast_to(padding, (n_b, n_h, n_q, n_k)) & (np.arange(n_q) != 1)[:, None]
    if masks_of in ("padding", "lengths"):
        fully_masked = padding & (np.arange(n_b) != 1)[:, None, None, None]
    found = {"no mask": None, "padding": padding, ARBITRARY[masks_of]: some,
             "one mask for all": some[0, 0], "a fully masked row": fully_masked}
    return q, k, v, dict.fromkeys(found) if masks_of == "none" else found


def search(form):
    """Return the Cases of the search, of two sizes, as a constant may fit one by chance."""
    q, k, v, keeps = tensors(shape(form, SEARCH), 0, form.masks)
    arbitrary = ARBITRARY[form.masks]
    names = ["no mask"] if form.masks == "none" else keeps
    cases = [Case(name, (q, k, v, keeps[name])) for name in names]
    # If all scores lie far below 0, a mask value of -100 is the largest score.
    below = (-LARGE * abs(q), 3 * abs(k), v, keeps.get(arbitrary))
    cases += [Case("large scores", (LARGE * q, k, v, keeps["padding"])),
              Case("scores far below 0", below)]
    return cases + _some(form, SECOND, 1, ("no mask", arbitrary))


def confirm(form):
    """Return Cases of other sizes, which the search does not use."""
    return _some(form, CONFIRM, 2, ("no mask", "padding", ARBITRARY[form.masks]))


def _some(form, which, seed, names):
    """Return the Cases of these sizes with these masks; with no mask if the form takes none."""
    q, k, v, keeps = tensors(shape(form, which), seed, form.masks)
    names = names[:1] if form.masks == "none" else names
    return [Case(f"{name} with {q.shape[2]} queries", (q, k, v, keeps[name])) for name in names]


def problem(answer, args):
    """Return in words what is wrong with the form of an Answer, or ""."""
    q, _, v, _ = args
    return wrong_form(answer, "the context", (*q.shape[:3], v.shape[3]))


def wrong_form(answer, name, shape):
    """Return what is wrong with an Answer that must have this shape, or ""; ``name``: its name."""
    if answer.error:
        return answer.error
    if answer.out.shape != shape:
        return f"returns shape {answer.out.shape}; expected {name} {shape}"
    if answer.out.dtype.kind != "f":
        return f"returns {answer.dtype}; expected floating-point numbers"
    return ""


def weights_of(ask, args):
    """Return the weights (b, h, i, j) that a kernel uses, from one-hot values, or None."""
    q, k, v, keep = args
    n_k, width = v.shape[2:]
    columns = []
    for start in range(0, n_k, width):
        one_hot = np.eye(n_k, width, k=-start)
        answer = ask(q, k, np.zeros(v.shape) + one_hot, keep)
        if problem(answer, args):
            return None
        columns.append(answer.out.astype(float))
    return np.concatenate(columns, axis=-1)[..., :n_k]
