"""Probes: properties of every attention, tested from outside, without a reference implementation.

``probe_kernel``, ``probe_layer`` and ``probe_decoding`` run all probes that fit a program, and
return one Finding each.
"""

from .case import Finding
from .invariants import (
    batch_independence,
    determinism,
    equivariance,
    finiteness,
    query_independence,
    shape,
    untouched,
)
from .kernel import (
    cache,
    head_independence,
    row_sums,
    variance,
    weights_match,
)
from .layer import (
    parameter_count,
    same_tokens,
    weights_on_off,
    weights_used,
)
from .run import probe_decoding, probe_kernel, probe_layer
from .visibility import causality, dependence, fully_masked_row, padding

__all__ = [
    "Finding",
    "batch_independence",
    "cache",
    "causality",
    "dependence",
    "determinism",
    "equivariance",
    "finiteness",
    "fully_masked_row",
    "head_independence",
    "padding",
    "parameter_count",
    "probe_decoding",
    "probe_kernel",
    "probe_layer",
    "query_independence",
    "row_sums",
    "same_tokens",
    "shape",
    "untouched",
    "variance",
    "weights_match",
    "weights_on_off",
    "weights_used",
]
