"""No public function of the rooms to read modifies what it is given.

Arguments are found by name: a function all of whose required parameters are known here is called.
"""

import copy
import inspect
import pkgutil
from importlib import import_module

import numpy as np
import pytest
import torch

import utils
from utils import masks, sizes

ROOMS = ("masks", "attention", "models", "parallel", "checks", "parity", "measure", "plots",
         "reference", "sizes")
WRITES = {  # what these are for
    "utils.parity.weights.load", "utils.parallel.data.take_step",
}
Q, K, V = sizes.qkv(n_q=7, n_k=7, d_v=4)
X, MEMORY = sizes.sides(n_q=7, n_k=7, d_in=12)
KEEP = masks.padding([7, 4], 7)
NUMPY = {
    "q": Q, "k": K, "v": V, "x": X, "memory": MEMORY, "keep": KEEP, "mask": KEEP,
    "scores": Q @ K.swapaxes(-1, -2), "weights": sizes.weights(d_in=12, d_out=12),
    "W": sizes.weights(d_in=12, d_out=12), "n_heads": 3, "lengths": np.array([7, 4]), "n": 7,
    "n_q": 7, "n_k": 7, "n_kv_heads": 1, "d_model": 12, "d": 4, "e": 12, "tile": 3,
    "value": V, "query": Q, "key": K, "X": Q @ K.swapaxes(-1, -2), "causal": True, "room": 9,
    "positions": np.arange(7), "g": Q, "shape": (7, 12), "got": Q, "expected": Q.copy(),
    "text": "abcabc",
}
NAMES = [module.name for room in ROOMS
         for module in [*pkgutil.walk_packages([f"{utils.__path__[0]}/{room}"], f"utils.{room}."),
                        pkgutil.ModuleInfo(None, f"utils.{room}", False)]]


def public():
    """Yield (name, function) of the public functions of the rooms."""
    for name in NAMES:
        module = import_module(name)
        for key, value in vars(module).items():
            if (inspect.isfunction(value) and value.__module__ == name
                    and not key.startswith("_")):
                yield f"{name}.{key}", value


def required(function):
    """Return the names of the parameters that a call must give."""
    return [p.name for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]


def tensors(value):
    """Return a value with tensors in the place of arrays."""
    if isinstance(value, dict):
        return {name: tensors(part) for name, part in value.items()}
    return torch.as_tensor(value) if isinstance(value, np.ndarray) else value


CALLS = [(name, function) for name, function in public()
         if name not in WRITES and required(function) and {*required(function)} <= {*NUMPY}]


def called(function, values):
    """Return whether a function takes these arguments, and whether it left them as they were."""
    given = {name: copy.deepcopy(values[name]) for name in required(function)}
    before, takes = copy.deepcopy(given), True
    try:
        function(**given)
    except Exception:  # it wants another framework, or other shapes
        takes = False
    return takes, all(map(same, given.values(), before.values()))


def same(value, before):
    """Return whether a value, arrays or tensors in dicts included, is as it was."""
    if isinstance(value, dict):
        return all(same(value[name], before[name]) for name in before)
    return bool(np.all(np.asarray(value) == np.asarray(before)))


@pytest.mark.parametrize(("name", "function"), CALLS, ids=[name for name, _ in CALLS])
def test_arguments_stay_as_they_are(name, function):
    found = [called(function, values) for values in (NUMPY, tensors(NUMPY))]
    assert all(unchanged for _, unchanged in found)


def test_most_functions_that_can_be_called_by_name_were(capsys):
    ran = [any(called(function, values)[0] for values in (NUMPY, tensors(NUMPY)))
           for _, function in CALLS]
    assert sum(ran) > 50
