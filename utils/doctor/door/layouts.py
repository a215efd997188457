"""The layouts of x beside (b, i, d), and the shapes in which positions are handed over."""

import importlib

import numpy as np

from ... import checks
from .entry import like
from .names import plain

LAYOUTS = ("", "an image (b, d, i, 1)", "channels first (b, d, i)", "an image (b, i, 1, d)")

TABLES = ("halves", "pairs", "position 0")  # of the angles of RoPE, if they are handed over
SHAPES = 8                                  # of such a table


def laid_out(x, layout, back=False):
    """Return x (b, i, d) in one of LAYOUTS; ``back``: the other way round."""
    if not layout:
        return x
    axes = {LAYOUTS[1]: (0, 3, 1, 2), LAYOUTS[2]: (0, 2, 1), LAYOUTS[3]: (0, 1, 2, 3)}[layout]
    if back:
        array = checks.to_numpy(x).transpose(np.argsort(axes))
        return like(array.reshape(array.shape[0], array.shape[1], -1), x)
    array = checks.to_numpy(x)
    array = array[:, :, None] if len(axes) == 4 else array
    return like(np.ascontiguousarray(array.transpose(axes)), x)


def swapped(x):
    if hasattr(x, "transpose") and not isinstance(x, np.ndarray):
        return x.transpose(0, 1).contiguous()
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(x.swapaxes(0, 1))
    return like(checks.to_numpy(x).swapaxes(0, 1), x)


def positions(named, x, n, n_heads, way, table=TABLES[0]):
    """Return {argument: positions from 0, or the angles of RoPE}, in one of SHAPES usual shapes.

    ``table``: one of TABLES, how angles are repeated where a table has as many as dimensions.
    """
    if not named:
        return {}
    torch, d = importlib.import_module("torch"), x.shape[-1] // n_heads
    half = torch.outer(torch.arange(n, dtype=x.dtype),
                       1e4 ** -(torch.arange(0, d // 2, dtype=x.dtype) * 2 / d))
    half = half * (table != TABLES[-1])
    whole = half.repeat_interleave(2, -1) if table == "pairs" else torch.cat([half, half], -1)

    def shaped(angles):
        d = angles.shape[-1]
        return angles.reshape(((n, d), (1, n, d), (1, 1, n, d), (1, n, 1, d))[way % 4])

    angles, half = shaped(whole if way < 4 else half), shaped(half)
    known = {"cos": angles.cos(), "sin": angles.sin(),
             "positionembeddings": (angles.cos(), angles.sin())}
    steps = torch.arange(n) if way % 2 == 0 else torch.arange(n)[None]
    return {name: known.get(plain(name), steps if "pos" in name.lower() else
                            torch.polar(torch.ones_like(half), half)) for name in named}
