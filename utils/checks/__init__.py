"""Check arguments, with errors that name the likely cause, and compare arrays.

``from utils import checks`` offers all checks that need no framework. Those that need PyTorch are
imported from their own modules: ``utils.checks.cache``, ``utils.checks.causal``.
"""

from .arguments import boolean, corner, divisible, drop, heads, keep, lengths, per_head
from .compare import (
    TOLERANCES,
    check_close,
    check_shapes,
    difference,
    differences,
    dtype_name,
    to_numpy,
)
from .dialects import head_parameters, sequence_first, sequence_mask, valid_lens
from .numbers import angles, count, counts, integers, layer, probability, writing
from .sides import array, inputs, same_kind, scores, sides, tokens

__all__ = [
    "TOLERANCES", "angles", "array", "boolean", "check_close", "check_shapes", "corner", "count",
    "counts", "difference", "differences", "divisible", "drop", "dtype_name", "head_parameters",
    "heads", "inputs", "integers", "keep", "layer", "lengths", "per_head", "probability",
    "same_kind", "scores", "sequence_first", "sequence_mask", "sides", "to_numpy", "tokens",
    "valid_lens", "writing",
]
