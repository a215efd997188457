"""Torch modules and Keras layers as functions of their weights."""

from .libraries import parameters_made
from .module import Module, of_module, restored

__all__ = ["Module", "of_module", "parameters_made", "restored"]
