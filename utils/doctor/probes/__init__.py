"""Probes: properties of every attention, tested from outside, without a reference implementation.

``probe_kernel``, ``probe_layer`` and ``probe_decoding`` run all probes that fit a program, and
return one Finding each.
"""

from .case import Finding
from .run import probe_decoding, probe_kernel, probe_layer

__all__ = ["Finding", "probe_decoding", "probe_kernel", "probe_layer"]
