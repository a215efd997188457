"""Attention with named faults, one switch each; with no switch on, it is the reference."""

from utils.doctor.faulty import decoding, kernel, layer

__all__ = ["decoding", "kernel", "layer"]
