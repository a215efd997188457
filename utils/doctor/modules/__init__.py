"""Torch modules and Keras layers as functions of their weights."""

from utils.doctor.modules.module import Module, kept, of_module

__all__ = ["Module", "kept", "of_module"]
