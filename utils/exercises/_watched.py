"""A program that remembers what it was asked."""

import sys

from utils.checks import to_numpy


class Watched:
    """A NumPy program, for arrays of any framework, that keeps its calls."""

    def __init__(self, program):
        self.program, self.calls = program, []

    def __call__(self, *given):
        """Return the program's answer, a tensor where a tensor came in, and keep the call."""
        arrays = [to_numpy(array) for array in given]
        result = self.program(*arrays)
        self.calls.append((*arrays, result))
        torch = sys.modules.get("torch")
        if torch and any(isinstance(array, torch.Tensor) for array in given):
            return torch.as_tensor(result)
        return result
