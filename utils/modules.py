"""A torch module or Keras layer as a function of its weights, which are written into it."""

import copy
import math
import sys

import numpy as np

from utils import checks, frameworks, slots


class Module:
    """A module as a layer ``(x, memory, weights, n_heads, keep) -> out``.

    ``build(d_model, n_heads)`` makes one, ``call(module, x, memory, keep)`` returns out. ``roles``
    is {"q": name, …} of parts or parameters, ``packed`` the name of what holds [q | k | v]; with
    neither they are guessed; where they cannot be, ``missing`` says so, and its own weights stay.
    """

    def __init__(self, build, call, roles=None, packed=None, size=(12, 3)):
        self.build, self.call, self.built, self.written = build, call, {}, {}
        sample = build(*size)
        self.framework, self.__name__ = slots.framework(sample), type(sample).__name__
        sample = self._module(*size, "float32", [self._tensor(np.ones((2, 4, size[0])))] * 2)
        self.said, self.guessed = slots.named(roles or {}, packed), not roles and not packed
        self.missing, self.unbiased, self.where = "", "", ""
        try:
            mine = self._slots(sample, *size)
        except slots.HoldingError as error:
            self.missing = str(error)
        else:
            self.unbiased = "".join(slot.letters for slot in mine
                                    if slots.parts(sample, slot.name)[1] is None)
            self.where = ", ".join(f"{' | '.join(slot.letters)} in {slot.name}" for slot in mine
                                   if not slot.head)

    def __call__(self, x, memory, weights, n_heads, keep):
        weights = {name: checks.to_numpy(w) for name, w in weights.items()}
        size = len(weights["W_o"]), n_heads
        module = self._module(*size, checks.dtype_name(x), (x, memory))
        before = self.written.get(id(module), weights if self.missing else {})
        if any(not np.array_equal(w, before.get(name)) for name, w in weights.items()):
            for slot in self._slots(module, *size):
                slots.write(module, slot, weights, n_heads)
            self.written[id(module)] = weights
        return self.call(module, x, memory, keep)

    def _slots(self, module, d_model, n_heads):
        return slots.guess(module, d_model, n_heads) if self.guessed else self.said

    def _tensor(self, x):
        if self.framework == "torch":
            return sys.modules["torch"].as_tensor(x, dtype=sys.modules["torch"].float32)
        return frameworks.tensorflow().constant(x, "float32")

    def _module(self, d_model, n_heads, dtype, sides):
        """Return the module of this size and dtype, built and, in Keras, called once."""
        key = d_model, n_heads, dtype
        if key not in self.built and self.framework == "torch":
            module = copy.deepcopy(self.build(d_model, n_heads))
            self.built[key] = module.to(getattr(sys.modules["torch"], dtype)).eval()
        elif key not in self.built:
            with frameworks.keras_dtype(dtype):
                self.built[key] = self.build(d_model, n_heads)
                self.call(self.built[key], *sides, None)
        return self.built[key]


def of_module(program, n_heads=None, call=None, roles=None, packed=None, self_attention=False):
    """Return (Module, heads): of a module, with heads = (h, d), or of what builds one, with None.

    Raises ValueError for a module whose number of heads is missing.
    """
    default = ((lambda module, x, memory, keep: module(x, keep)) if self_attention else
               (lambda module, x, memory, keep: module(x, memory, keep)))
    if isinstance(program, type) or not slots.framework(program):
        return Module(program, call or default, roles, packed), None
    if n_heads is None:
        raise ValueError("how many heads a module has must be said: n_heads=")
    held = slots.named(roles or {}, packed)
    d_model = _width(program, held[0] if held else None)
    build = Module(lambda *_: program, call or default, roles, packed, (d_model, n_heads))
    return build, (n_heads, d_model // n_heads)


def _width(module, slot):
    """Return d_model of a module, from a kernel (d_model, d_model) or what holds several."""
    if slot is None:
        return max(math.isqrt(math.prod(w.shape)) for w in _weights(module) if len(w.shape) > 1
                   and math.isqrt(math.prod(w.shape)) ** 2 == math.prod(w.shape))
    kernel, _ = slots.parts(module, slot.name)
    return math.isqrt(math.prod(kernel.shape) // len(slot.letters))


def _weights(module):
    return module.parameters() if slots.framework(module) == "torch" else module.weights
