"""Programs of every kind, made comparable: from one case to outputs and gradients by name.

A case is a ``parity.Case``: x (b, i, e), memory (b, j, e), a weight set, n_heads, keep, cotangent.
Gradients are those of sum(out * cotangent), of ``x``, ``memory`` and each name of the weight set.
"""

from collections.abc import Callable
from typing import NamedTuple

from utils import checks, frameworks, weights


class Program(NamedTuple):
    """A name, and a function of a case that returns a dict: ``out`` and, or not, the gradients."""

    name: str
    results: Callable


def numpy_function(name, function):
    """Return the Program of f(x, memory, weights, n_heads, keep) -> out on arrays: outputs only."""
    def results(case):
        out = function(case.x, case.memory, case.weights, case.n_heads, case.keep)
        return {"out": checked(out, case)}
    return Program(name, results)


def torch_function(name, function):
    """Return the Program of f(x, memory, weights, n_heads, keep) -> out on tensors.

    ``weights`` is a dict of tensors with the names of ``sizes.weights``, ``keep`` a bool tensor
    (b, 1, i, j), True = may attend.
    """
    def results(case):
        import torch
        tensors = {name: torch.tensor(w, requires_grad=True) for name, w in case.weights.items()}
        keep = torch.tensor(case.keep)
        return torch_results(case, tensors, lambda x, memory: function(
            x, memory, tensors, case.n_heads, keep))
    return Program(name, results)


def torch_module(name, build, call, back):
    """Return the Program of a PyTorch module.

    ``build(case)`` returns the module and the params to load into it, made by a ``to_X`` of
    ``utils.weights``; ``call(module, x, memory, case)`` returns out; ``back``, its ``from_X``,
    reads the gradients.
    """
    def results(case):
        import torch
        module, params = build(case)
        module.to(getattr(torch, case.x.dtype.name)).eval()
        parameters = dict(weights.load(module, params).named_parameters())
        found = torch_results(case, parameters, lambda x, memory: call(module, x, memory, case))
        return found | back({name: found.pop(name) for name in parameters})
    return Program(name, results)


def torch_results(case, parameters, call):
    """Return out = call(x, memory) and the gradients of x, of memory and of the parameters."""
    import torch
    sides = {name: torch.tensor(side, requires_grad=True) for name, side in case.sides().items()}
    out = checked(call(sides["x"], sides.get("memory", sides["x"])), case)
    inputs = sides | parameters
    # What the program never uses has a gradient of zero, a difference like any other.
    gradients = torch.autograd.grad(out, [*inputs.values()], torch.tensor(case.cotangent),
                                    allow_unused=True, materialize_grads=True)
    return {"out": out} | dict(zip(inputs, gradients, strict=True))


def keras_layer(name, build, call, back):
    """Return the Program of a TensorFlow or Keras layer; arguments as those of ``torch_module``."""
    def results(case):
        tf = frameworks.tensorflow()
        layer = weights.load(*build(case))
        sides = {name: tf.constant(side) for name, side in case.sides().items()}
        with tf.GradientTape() as tape:
            tape.watch([*sides.values()])
            out = call(layer, sides["x"], sides.get("memory", sides["x"]), case)
        inputs = [*sides.values(), *layer.trainable_variables]
        gradients = tape.gradient(checked(out, case), inputs, tf.constant(case.cotangent),
                                  unconnected_gradients="zero")
        found = {"out": out} | dict(zip(sides, gradients, strict=False))
        return found | back(gradients[len(sides):])
    return Program(name, results)


def checked(out, case):
    """Return ``out``. Raises TypeError or ValueError unless its shape and dtype are what x says."""
    shape, dtype = case.cotangent.shape, case.x.dtype.name
    if not hasattr(out, "shape"):
        raise TypeError(f"out should be one array {shape}, got a {type(out).__name__}")
    if tuple(out.shape) != shape:
        raise ValueError(f"out should be {shape}, got {tuple(out.shape)}")
    if checks.dtype_name(out) != dtype:
        raise TypeError(f"out should be {dtype}, as x is, got {checks.dtype_name(out)}")
    return out
