"""The layouts of x beside (b, i, d), and the shapes in which positions are handed over."""

import importlib

import numpy as np

from utils import checks
from utils.doctor.door.entry import like
from utils.doctor.door.names import plain

LAYOUTS = ("", "an image (b, d, i, 1)", "channels first (b, d, i)", "an image (b, i, 1, d)")


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


def positions(named, x, n, n_heads, way):
    """Return {argument: positions from 0, or a rotation by none}, in one of four usual shapes."""
    if not named:
        return {}
    torch, d = importlib.import_module("torch"), x.shape[-1] // n_heads

    def ones(d):
        return torch.ones(((n, d), (1, n, d), (1, 1, n, d), (1, n, 1, d))[way], dtype=x.dtype)

    complex_ones = torch.polar(ones(d // 2), 0 * ones(d // 2))
    known = {"cos": ones(d), "sin": 0 * ones(d), "positionembeddings": (ones(d), 0 * ones(d))}
    steps = torch.arange(n) if way % 2 == 0 else torch.arange(n)[None]
    return {name: known.get(plain(name), steps if "pos" in name.lower() else complex_ones)
            for name in named}
