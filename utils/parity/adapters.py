"""Adapters that run programs of different frameworks on one case, to compare the results.

A case is a ``parity.Case``: x (b, i, e), memory (b, j, e), a weight set, n_heads, keep, grad_out.
A program returns out and the gradients of sum(out * grad_out) with respect to ``x``, ``memory`` and
each array of the weight set. It can also be prepared to be timed, with all inputs converted.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from .. import checks, frameworks
from . import weights


class Program(NamedTuple):
    """A name, and two functions of a case.

    ``results`` returns a dict: ``out`` and, if the program has them, the gradients. ``prepare``
    returns a function without arguments that computes out without gradients, from inputs and
    parameters that are already converted.
    """

    name: str
    results: Callable
    prepare: Callable | None = None


def numpy_function(name, function, convert=dict):
    """Return the Program of f(x, memory, weights, n_heads, keep) -> out on arrays: outputs only.

    ``convert``, a ``to_X`` of ``weights``, converts a weight set to what the function takes.
    """
    def prepare(case):
        params = convert(case.weights)
        return partial(function, case.x, case.memory, params, case.n_heads, case.keep)
    return Program(name, lambda case: {"out": checked(prepare(case)(), case)}, prepare)


def torch_function(name, function):
    """Return the Program of f(x, memory, weights, n_heads, keep) -> out on tensors.

    ``weights`` is a dict of tensors with the names of ``sizes.weights``, ``keep`` a bool tensor
    (b, 1, i, j), True = may attend.
    """
    def call(case, tensors):
        import torch
        keep = None if case.keep is None else torch.tensor(case.keep)
        return lambda x, memory: function(x, memory, tensors, case.n_heads, keep)

    def results(case):
        tensors = torch_tensors(case.weights, requires_grad=True)
        return torch_results(case, tensors, call(case, tensors))

    def prepare(case):
        return torch_inference(case, call(case, torch_tensors(case.weights)))
    return Program(name, results, prepare)


def torch_module(name, build, call, back):
    """Return the Program of a PyTorch module.

    ``build(case)`` returns the module and the params to load into it, from a ``to_X`` of
    ``weights``. ``call(module, x, memory, case)`` returns out. ``back``, the matching ``from_X``,
    converts the gradients.
    """
    def loaded(case):
        import torch
        module, params = build(case)
        module.to(getattr(torch, case.x.dtype.name)).eval()
        return weights.load(module, params)

    def results(case):
        module = loaded(case)
        parameters = dict(module.named_parameters())
        found = torch_results(case, parameters, lambda x, memory: call(module, x, memory, case))
        return found | back({name: found.pop(name) for name in parameters})

    def prepare(case):
        module = loaded(case)
        return torch_inference(case, lambda x, memory: call(module, x, memory, case))
    return Program(name, results, prepare)


def torch_tensors(arrays, requires_grad=False):
    """Return a dict of tensors, copies of a dict of arrays."""
    import torch
    return {name: torch.tensor(array, requires_grad=requires_grad)
            for name, array in arrays.items()}


def torch_inference(case, call):
    """Return a function without arguments: call(x, memory) in PyTorch's inference mode."""
    import torch
    sides = {name: torch.as_tensor(side) for name, side in case.sides().items()}  # no copies
    return torch.inference_mode()(partial(call, sides["x"], sides.get("memory", sides["x"])))


def torch_results(case, parameters, call):
    """Return out = call(x, memory) and the gradients of x, of memory and of the parameters."""
    import torch
    sides = torch_tensors(case.sides(), requires_grad=True)
    out = checked(call(sides["x"], sides.get("memory", sides["x"])), case)
    inputs = sides | parameters
    # An input that the program does not use has a gradient of zero, which is compared as well.
    gradients = torch.autograd.grad(out, [*inputs.values()], torch.tensor(case.grad_out),
                                    allow_unused=True, materialize_grads=True)
    return {"out": out} | dict(zip(inputs, gradients, strict=True))


def keras_layer(name, build, call, back):
    """Return the Program of a TensorFlow or Keras layer; arguments as those of ``torch_module``.

    ``prepare`` traces it once, to a graph that runs without Python.
    """
    def prepare(case):
        tf = frameworks.tensorflow()
        layer = weights.load(*build(case))
        sides = {name: tf.constant(side) for name, side in case.sides().items()}
        run = tf.function(autograph=False)(lambda: call(
            layer, sides["x"], sides.get("memory", sides["x"]), case))
        return run.get_concrete_function()

    def results(case):
        tf = frameworks.tensorflow()
        layer = weights.load(*build(case))
        sides = {name: tf.constant(side) for name, side in case.sides().items()}
        with tf.GradientTape() as tape:
            tape.watch([*sides.values()])
            out = call(layer, sides["x"], sides.get("memory", sides["x"]), case)
        inputs = [*sides.values(), *layer.trainable_variables]
        gradients = tape.gradient(checked(out, case), inputs, tf.constant(case.grad_out),
                                  unconnected_gradients="zero")
        found = {"out": out} | dict(zip(sides, gradients, strict=False))
        return found | back(gradients[len(sides):])
    return Program(name, results, prepare)


def jax_function(name, function, convert, back):
    """Return the Program of a JAX function f(params, x, memory, keep) -> out.

    ``convert(weights, n_heads)`` makes params of a weight set, and ``back`` a weight set of the
    gradients of params. Both are compiled, once for each dtype and each shape; the gradients
    quickly, without optimisation.
    """
    jitted = {}

    def compiled(jax):
        def value(params, sides, keep):
            return function(params, sides["x"], sides.get("memory", sides["x"]), keep)

        def loss(params, sides, keep, grad_out):
            out = value(params, sides, keep)
            return (out * grad_out).sum(), out

        if not jitted:
            jitted["out"] = jax.jit(value)
            jitted["gradient"] = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True),
                                         compiler_options={"xla_backend_optimization_level": 0})
        return jitted

    def context(case):
        double = case.x.dtype.name == "float64"
        return frameworks.jax_float64() if double else contextlib.nullcontext()

    def results(case):
        with context(case):
            (d_params, d_sides), out = compiled(frameworks.jax())["gradient"](
                convert(case.weights, case.n_heads), case.sides(), case.keep, case.grad_out)
        d_sides = {name: d_sides[name] for name in case.sides()}  # JAX sorts the keys of a dict
        return {"out": checked(out, case)} | d_sides | back(d_params)

    def prepare(case):
        jax = frameworks.jax()
        with context(case):
            given = jax.device_put((convert(case.weights, case.n_heads), case.sides(), case.keep))
            run = compiled(jax)["out"].lower(*given).compile()
        return lambda: run(*given).block_until_ready()
    return Program(name, results, prepare)


def checked(out, case):
    """Return ``out``. Raises TypeError or ValueError unless its shape and dtype are those of x."""
    shape, dtype = case.grad_out.shape, case.x.dtype.name
    if not hasattr(out, "shape"):
        raise TypeError(f"out must be an array {shape}, got {type(out).__name__}")
    if tuple(out.shape) != shape:
        raise ValueError(f"out must be {shape}, got {tuple(out.shape)}")
    if checks.dtype_name(out) != dtype:
        raise TypeError(f"out must be {dtype}, the dtype of x, got {checks.dtype_name(out)}")
    return out
