"""Switches of a layer's constants, fitted to its outputs.

They are for layers whose kernel cannot be reached by weights that only copy: behind a LayerNorm,
and with heads of one or two dimensions.
"""

import itertools

import numpy as np

from .. import _search
from .._search import Switch
from ..faulty.kernel import Masking
from . import fit
from .kernel_constants import mask_value_text

SCALES = np.geomspace(1e-3, 1e2, 50)
MASK_VALUES = np.concatenate([-np.geomspace(1e4, 1e-2, 24), [0.0], np.geomspace(1e-2, 1e4, 24)])
CLOSE = _search.TOLERANCES["float32"]


def constants(ask, level):
    """Return the Switches of a scale and of a finite mask value that explain the outputs.

    ``level``: a ``levels.layer.Layer``. The scale must explain all outputs without a mask, and the
    mask value, with this scale, all outputs with padding, at two sizes each.
    """
    asked = [(case, ask(*case.args)) for case in level.search_cases()]
    asked = [(case, answer) for case, answer in asked
             if case.name != "large scores" and not level.problem(answer, case.args)]
    plain = [pair for pair in asked if pair[0].args[-1] is None]
    padded = [pair for pair in asked if pair[0].name.startswith("padding")]
    found = []
    scale = _fitted(level, plain, SCALES, lambda x: {"scale": x})
    if scale is not None:
        found.append(Switch("constant scale", {"scale": scale}, f"the scale is {scale:.4g}"))
    base = found[0].settings if found else {}
    for part, how in itertools.product(level.options.masked_parts(), ("fill", "add")):
        value = _fitted(level, plain if part == "causal" else padded, MASK_VALUES,
                        lambda x, how=how, part=part: base | {"masking": Masking(how, part, x)})
        if value is not None:
            found.append(Switch("mask value too high", {"masking": Masking(how, part, value)},
                                mask_value_text(how, f"{value:.4g}")))
    return found


def _fitted(level, pairs, grid, settings):
    """Return the number that explains all pairs of a Case and its Answer, or None."""
    def error(x, pair):
        case, answer = pair
        out, _ = level.expected(case.args, settings(x), "nan")
        return _search.gap(answer.out, out, defined_only=True)

    if not pairs:
        return None
    x = fit.fitted(lambda x: error(x, pairs[0]), grid)
    return x if all(error(x, pair) < CLOSE for pair in pairs) else None
