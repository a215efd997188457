"""What differs between NumPy, PyTorch and TensorFlow, one class for each; all else is NumPy.

No framework is imported before a program that uses it: a framework that is not loaded owns nothing.
"""

import sys

import numpy as np

from .. import checks, frameworks
from . import _subject


class NumPy:
    """Arrays; there are no modules."""

    name = "numpy"

    def array(self, array):
        """Return a NumPy array as an array of this framework."""
        return array

    def zero(self, dtype):
        """Return an array of this framework and dtype, as an example.

        Raises RefusalError if the framework is not installed.
        """
        with _subject.refusing():
            return self.array(np.zeros(1, dtype))


class Torch(NumPy):
    """PyTorch. ``method``: in which a class of modules says what a call does."""

    name, method = "torch", "forward"

    @property
    def library(self):
        """The framework itself; to import it takes two seconds."""
        import torch
        return torch

    @property
    def base(self):
        """The base class of modules."""
        return self.library.nn.Module

    def is_module(self, value):
        """Return whether a value is a module of this framework, an object with weights."""
        return "torch" in sys.modules and isinstance(value, self.base)

    def array(self, array):
        return self.library.from_numpy(np.array(array))


class TensorFlow(NumPy):
    """TensorFlow with Keras, whose layers are its modules."""

    name, method = "tensorflow", "call"

    @property
    def library(self):
        """The framework itself."""
        return frameworks.tensorflow()

    @property
    def base(self):
        """The base class of layers."""
        return self.library.keras.layers.Layer

    def is_module(self, value):
        """Return whether a value is a layer of Keras."""
        return hasattr(value, "get_weights")

    def array(self, array):
        return self.library.constant(array)


NUMPY, TORCH, TENSORFLOW = NumPy(), Torch(), TensorFlow()
BY_NAME = {one.name: one for one in (NUMPY, TORCH, TENSORFLOW)}


def of(value):
    """Return the backend of an array or module; NumPy's for what belongs to no other."""
    return of_module(value) or next(
        (one for one in (TORCH, TENSORFLOW)
         if one.name in sys.modules and one.library.is_tensor(value)), NUMPY)


def of_module(value):
    """Return the backend of a module, or None for what is no module."""
    return next((one for one in (TORCH, TENSORFLOW) if one.is_module(value)), None)


def like(array, x, cast=True):
    """Return a NumPy array in the framework of x; with ``cast``, numbers get the precision of x."""
    if cast and array.dtype.kind in "fc":
        precision = checks.dtype_name(x).replace("bfloat16", "float32")
        array = array.astype(precision if array.dtype.kind == "f" else
                             np.result_type(precision, np.complex64))
    return of(x).array(array)
