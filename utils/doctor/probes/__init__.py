"""Probes: what holds for every attention, tested from outside, with no reference needed.

``probe_kernel``, ``probe_layer`` and ``probe_decoding`` put all of them to a program, and return a
Finding each.
"""

from utils.doctor.probes.case import Finding
from utils.doctor.probes.invariants import (
    batch_independence,
    determinism,
    equivariance,
    finiteness,
    query_independence,
    shape,
    untouched,
)
from utils.doctor.probes.kernel import (
    cache,
    head_independence,
    row_sums,
    variance,
    weights_match,
)
from utils.doctor.probes.layer import (
    parameter_count,
    same_words,
    weights_on_off,
    weights_used,
)
from utils.doctor.probes.run import probe_decoding, probe_kernel, probe_layer
from utils.doctor.probes.visibility import causality, empty_row, hearing, padding

__all__ = [
    "Finding",
    "batch_independence",
    "cache",
    "causality",
    "determinism",
    "empty_row",
    "equivariance",
    "finiteness",
    "head_independence",
    "hearing",
    "padding",
    "parameter_count",
    "probe_decoding",
    "probe_kernel",
    "probe_layer",
    "query_independence",
    "row_sums",
    "same_words",
    "shape",
    "untouched",
    "variance",
    "weights_match",
    "weights_on_off",
    "weights_used",
]
