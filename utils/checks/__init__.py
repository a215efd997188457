"""Check arguments, with errors that name the likely cause, and compare arrays.

``from utils import checks`` offers all checks that need no framework. Those that need PyTorch are
imported from their own modules: ``utils.checks.cache``, ``utils.checks.causal``.
"""

from utils.checks.arguments import boolean, corner, divisible, drop, heads, keep, lengths, per_head
from utils.checks.compare import (
    TOLERANCES,
    check_close,
    check_shapes,
    difference,
    differences,
    dtype_name,
    to_numpy,
)
from utils.checks.dialects import sequence_first, sequence_mask, valid_lens

__all__ = [
    "TOLERANCES", "boolean", "check_close", "check_shapes", "corner", "difference", "differences",
    "divisible", "drop", "dtype_name", "heads", "keep", "lengths", "per_head", "sequence_first",
    "sequence_mask", "to_numpy", "valid_lens",
]
