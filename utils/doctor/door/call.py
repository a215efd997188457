"""A CallPlan carried out: arrays in the doctor's axes in, and the output in these axes out."""

import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from ... import checks
from .. import _subject, backends
from . import names
from .plan import KERNEL, TABLES, arranged, back


class Target(NamedTuple):
    """A program that can be called: ``ask(**arguments)``.

    ``like``: an array of its framework, in the dtype that it takes. ``n_heads``: of a layer.
    ``module``: the module that is called, if it is one.
    """

    ask: object
    like: object
    n_heads: int = 1
    module: object = None

    def answer(self, plan, sides, keep=None):
        """Return what it gives for NumPy arrays by a plan, as NumPy. Raises RefusalError."""
        with _subject.refusing():
            return checks.to_numpy(carried_out(self, plan, sides, keep))


def target_of(module, n_heads):
    """Return a Target that calls a module; a torch module in evaluation, as a copy."""
    if backends.TORCH.is_module(module):
        module = copy.deepcopy(module).eval()  # the reader's own stays as it is
        like = next(module.parameters(), backends.TORCH.zero("float32"))
        return Target(partial(backends.TORCH.base.__call__, module), like, n_heads, module)
    return Target(module, backends.TENSORFLOW.zero("float32"), n_heads, module)


def each(function, sides):
    """Return what a function gives for each array; an array that is passed twice stays one."""
    given = {id(side): function(side) for side in sides}
    return [given[id(side)] for side in sides]


def carried_out(target, plan, sides, keep=None):
    """Return what a program gives for (q, k, v), or (x, memory, memory), called by a plan.

    ``keep``: bools that broadcast to (b, h, i, j), or None. An array that is passed twice stays
    one. The output has the axes of the first side, and its framework.
    """
    q, k, v = each(checks.to_numpy, sides)
    mask = None
    if plan.mask and (keep is not None or plan.always):
        heads = q.shape[1] if plan.base == KERNEL else target.n_heads
        keep = True if keep is None else checks.to_numpy(keep)
        mask = np.array(np.broadcast_to(keep, (len(q), heads, q.shape[-2], k.shape[-2])))
    out = _by_pieces(target, plan, plan.pieces, (q, k, v), mask)
    return backends.like(out, sides[0], cast=False)


def _by_pieces(target, plan, pieces, sides, mask):
    """Return the output of NumPy arrays, called piece by piece along these axes."""
    if not pieces:
        return _called(target, plan, sides, mask)
    axis = plan.base.split().index(pieces[0])  # of a mask, too
    outs = []
    for n in range(sides[0].shape[axis]):
        taken = partial(np.take, indices=[n], axis=axis)
        part = None if mask is None else taken(mask)
        outs.append(_by_pieces(target, plan, pieces[1:], each(taken, sides), part))
    return np.concatenate(outs, axis)


def _called(target, plan, sides, mask):
    """Return the output of one call; all is NumPy, in the doctor's axes."""
    q, k, v = each(lambda side: backends.like(arranged(side, plan.base, plan.axes), target.like),
                   sides)
    n, d = sides[0].shape[-2:]
    of = {"x": q, "q": q, "k": k, "v": v, "memory": k, "[q, k, v]": [q, k, v],
          "[x, memory]": [q, k], "d": d, "√d": d ** 0.5, "off": 0, "start": 0, "none": None,
          "n": n, "1": 1}
    arguments = {name: of[role] for name, role in plan.roles if role in of} | dict(plan.flags)
    if plan.angles:
        angles = _angles(plan.angles, n, d // target.n_heads)
        arguments |= {name: _positions(name, angles, n, target.like)
                      for name, role in plan.roles if role == "turn"}
    if mask is not None:
        arguments[plan.masked] = backends.like(plan.mask.made(mask), target.like)
    try:
        result = target.ask(**arguments)
    except AttributeError as error:  # of the mask, as another mask might have it?
        error.of_mask = getattr(error, "obj", error) is arguments.get(plan.masked)
        raise
    out = checks.to_numpy(_first(result, q.shape, sides[2].shape[-1], plan.axes))
    if not _fits(out, q.shape, plan.axes):
        side = "q" if plan.base == KERNEL else "x"
        raise _subject.RefusalError(f"returns shape {tuple(out.shape)} for {side} "
                                    f"{tuple(q.shape)}")
    size = dict(zip(plan.base.split()[:-1], sides[0].shape, strict=False))
    return back(out, plan.base, plan.axes, size)


def _angles(angles, n, d):
    """Return the angles (i, d / 2), and those of a whole table, for n positions; all is NumPy."""
    base = 1e4 ** (-2 * np.arange(d // 2) / d)
    half = np.outer(np.arange(n), base * (angles.table != TABLES[-1]))
    whole = half
    if angles.whole:
        whole = half.repeat(2, -1) if angles.table == "pairs" else np.concatenate([half] * 2, -1)
    return arranged(half, "i d", angles.axes), arranged(whole, "i d", angles.axes)


def _positions(name, angles, n, like):
    """Return what an argument for positions gets: positions from 0, or a table of angles."""
    half, whole = angles
    word = names.plain(name)
    if word.endswith(("cos", "sin")):
        return backends.like(np.cos(whole) if word.endswith("cos") else np.sin(whole), like)
    if word == "positionembeddings":
        return backends.like(np.cos(whole), like), backends.like(np.sin(whole), like)
    if names.of_positions(name):
        steps = np.arange(n)
        return backends.like(steps if half.ndim % 2 == 0 else steps[None], like)
    return backends.like(np.exp(1j * half), like)


def _first(result, shape, width, axes):
    """Return the output in a result, which may be a tuple or a dict, by the shape of q or x."""
    if hasattr(result, "shape"):
        return result
    several = isinstance(result, tuple | list) or hasattr(result, "values")
    items = result.values() if hasattr(result, "values") else result
    arrays = [item for item in items if hasattr(item, "shape")] if several else []
    if not arrays:
        raise _subject.RefusalError(f"returns {_subject.kind(result)}; expected an array")
    fitting = [item for item in arrays if _fits(item, shape, axes)]
    where = axes.split().index("d")
    return next((item for item in fitting if item.shape[where] == width), (fitting or arrays)[0])


def _fits(array, shape, axes):
    """Return whether an array has this shape in all axes but d."""
    return len(array.shape) == len(shape) and all(
        axis == "d" or have == want
        for axis, have, want in zip(axes.split(), array.shape, shape, strict=True))
