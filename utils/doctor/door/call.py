"""A CallPlan carried out: arrays in the doctor's axes in, and the output in these axes out."""

import copy
from typing import NamedTuple

import numpy as np

from ... import checks
from .. import _subject, backends
from . import names
from .plan import FULL, KERNEL, TABLES, arranged, back

BASE = 1e4   # of the angles of RoPE


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
        weight = next(iter(module.parameters()), None)
        like = backends.TORCH.zero("float32") if weight is None else weight
        call = backends.TORCH.library.nn.Module.__call__
        return Target(lambda **given: call(module, **given), like, n_heads, module)
    like = backends.TENSORFLOW.zero("float32")
    return Target(lambda **given: module(**given), like, n_heads, module)


def carried_out(target, plan, sides, keep=None):
    """Return what a program gives for (q, k, v), or (x, memory, memory), called by a plan.

    ``keep``: bools that broadcast to (b, h, i, j), or None. An array that is passed twice stays
    one. The output has the axes of the first side, and its framework.
    """
    arrays = {id(side): checks.to_numpy(side) for side in sides}
    q, k, v = (arrays[id(side)] for side in sides)
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
    first, *rest = pieces
    axis = plan.base.split().index(first)
    outs = []
    for n in range(sides[0].shape[axis]):
        parts = {id(side): side.take([n], axis) for side in sides}
        part = None if mask is None else mask.take([n], FULL.split().index(first))
        outs.append(_by_pieces(target, plan, rest, [parts[id(side)] for side in sides], part))
    return np.concatenate(outs, axis)


def _called(target, plan, sides, mask):
    """Return the output of one call; all is NumPy, in the doctor's axes."""
    given = {id(side): backends.like(arranged(side, plan.base, plan.axes), target.like)
             for side in sides}
    q, k, v = (given[id(side)] for side in sides)
    n, d = sides[0].shape[-2:]
    of = {"x": q, "q": q, "k": k, "v": v, "memory": k, "[q, k, v]": [q, k, v],
          "[x, memory]": [q, k], "d": d, "√d": d ** 0.5, "off": 0, "start": 0, "none": None,
          "n": n, "1": 1}
    turned = [name for name, role in plan.roles if role == "turn"]
    arguments = {name: of[role] for name, role in plan.roles if role in of} | dict(plan.flags)
    if turned:
        angles = _angles(plan.angles, n, d // (1 if plan.base == KERNEL else target.n_heads))
        arguments |= {name: _positions(name, angles, n, target.like) for name in turned}
    if mask is not None:
        arguments[plan.masked] = backends.like(plan.mask.made(mask), target.like)
    try:
        result = target.ask(**arguments)
    except AttributeError as error:  # of the mask, as another mask might have it?
        error.of_mask = getattr(error, "obj", error) is arguments.get(plan.masked)
        raise
    out = checks.to_numpy(_first(result, tuple(q.shape), sides[2].shape[-1], plan.axes))
    if _but(out.shape, plan.axes) != _but(q.shape, plan.axes):
        side = "q" if plan.base == KERNEL else "x"
        raise _subject.RefusalError(f"returns shape {tuple(out.shape)} for {side} "
                                    f"{tuple(q.shape)}")
    size = dict(zip(plan.base.split()[:-1], sides[0].shape, strict=False))
    return back(out, plan.base, plan.axes, size)


def _angles(angles, n, d):
    """Return the angles (i, d / 2), and those of a whole table, for n positions; all is NumPy."""
    half = np.outer(np.arange(n), BASE ** (-2 * np.arange(d // 2) / d))
    half = half * (angles.table != TABLES[-1])
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
    """Return the output in a result, which may be a tuple or a dict; the shape says which it is.

    ``shape``: that of q or x as the program got it. ``width``: of the values. Raises RefusalError
    for a result without an array.
    """
    if hasattr(result, "shape"):
        return result
    several = isinstance(result, tuple | list) or hasattr(result, "values")
    items = result.values() if hasattr(result, "values") else result
    arrays = [item for item in items if hasattr(item, "shape")] if several else []
    if not arrays:
        raise _subject.RefusalError(f"returns {_subject.kind(result)}; expected an array")
    where = axes.split().index("d")
    expected = (*shape[:where], width, *shape[where + 1:])
    rest = [item for item in arrays if _but(item.shape, axes) == _but(shape, axes)]
    return next((item for item in arrays if tuple(item.shape) == expected), (rest or arrays)[0])


def _but(shape, axes):
    """Return a shape without the axis d."""
    where = axes.split().index("d")
    return len(shape), *shape[:where], *shape[where + 1:]
