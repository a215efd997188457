"""Attention with named faults, one switch for each; with every switch off it is the reference."""

from . import decoding, kernel, layer

__all__ = ["decoding", "kernel", "layer"]
