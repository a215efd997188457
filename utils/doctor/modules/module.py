"""A torch module or Keras layer as a function of its weights, which are written into it."""

import contextlib
import copy
import inspect
import math
import sys

import numpy as np

from utils import checks, frameworks
from utils.doctor import _subject, faulty
from utils.doctor.modules import guess, libraries, slots

PLAIN = {(True, False): libraries.plain, (True, True): libraries.plain_self,  # masks, alone
         (False, False): libraries.unmasked, (False, True): libraries.unmasked_self}


class Module:
    """A module as a layer ``(x, memory, weights, n_heads, keep) -> out``.

    ``build(d_model, n_heads)`` makes one, ``call(module, x, memory, keep)`` returns out; ``roles``
    is {"q": name, …} of parts or parameters, ``packed`` the name of what holds [q | k | v]. Without
    these a layer of a library is known, and of others the roles are guessed; where they cannot be,
    ``missing`` says so, and its own weights stay.
    """

    def __init__(self, build, call, roles=None, packed=None, size=(12, 3), batch_first=True):
        with _subject.refusing():
            sample = build(*size)
        if not slots.framework(sample):
            raise _subject.RefusalError(
                "is neither a torch module nor a Keras layer, so no weights can be written into "
                "it; its attention can be examined as a function of x, memory, weights, n_heads "
                "and keep")
        known = libraries.known(sample)
        if known and not (roles or packed):
            roles, packed = known.roles, known.packed
        if known and call in PLAIN.values():
            call, batch_first = known.call, True  # it says so itself
        self.wanted = _wanted(sample, call)
        self.call = call if batch_first else libraries.sequence_first(call, 1)
        self.build, self.built, self.written = build, {}, {}
        self.framework, self.__name__ = slots.framework(sample), type(sample).__name__
        self.said, self.guessed = slots.named(roles or {}, packed), not roles and not packed
        self.missing, self.unbiased, self.where, self.epsilon = "", "", "", faulty.layer.EPSILON
        with _subject.refusing():
            self._see(size)

    def _see(self, size):
        """Note where a module of this size holds its weights, which have no bias, and its eps."""
        sample = self._module(*size, "float32", [self._tensor(np.ones((2, 4, size[0])))] * 2)
        self.epsilon = libraries.epsilon(sample) or faulty.layer.EPSILON
        try:
            mine = self._slots(sample, *size)
        except guess.HoldingError as error:
            self.missing = str(error)
        else:
            self.unbiased = "".join(slot.letters for slot in mine
                                    if slots.parts(sample, slot.name)[1] is None)
            self.where = ", ".join(f"{' | '.join(slot.letters)} in {slot.name}" for slot in mine
                                   if not slot.head)

    def __call__(self, x, memory, weights, n_heads, keep, **asked):
        weights = {name: checks.to_numpy(w) for name, w in weights.items()}
        size = len(weights["W_o"]), n_heads
        module = self._module(*size, checks.dtype_name(x), (x, memory))
        before = weights if self.missing else self.written.get(id(module), {})
        new = {name[-1] for name, w in weights.items() if not np.array_equal(w, before.get(name))}
        for slot in self._slots(module, *size) if new else ():
            if new & {*slot.letters}:
                slots.write(module, slot, weights, n_heads)
        self.written[id(module)] = weights
        return self.call(module, x, memory, keep, **asked)

    def asking(self, *args):
        """Return (out, weights) of a module that returns its weights on request."""
        return self(*args, **{self.wanted: True})

    def parameters(self):
        """Return how many numbers the module holds."""
        module = next(iter(self.built.values()))
        return sum(math.prod(w.shape) for w in _weights(module))

    def _slots(self, module, d_model, n_heads):
        return guess.guess(module, d_model, n_heads) if self.guessed else self.said

    def _tensor(self, x):
        if self.framework == "torch":
            return sys.modules["torch"].as_tensor(x, dtype=sys.modules["torch"].float32)
        return frameworks.tensorflow().constant(x, "float32")

    def _module(self, d_model, n_heads, dtype, sides):
        """Return the module of this size and dtype, built and, where it is lazy, called once."""
        key = d_model, n_heads, dtype
        if key not in self.built and self.framework == "torch":
            module = copy.deepcopy(self.build(d_model, n_heads))
            self.built[key] = module.to(getattr(sys.modules["torch"], dtype)).eval()
            if _lazy(module):  # shapes come with the first call
                self.call(module, *sides, None)
            libraries.unlearned(module)
        elif key not in self.built:
            with frameworks.keras_dtype(dtype):
                self.built[key] = self.build(d_model, n_heads)
                self.call(self.built[key], *sides, None)
            libraries.unlearned(self.built[key])
        return self.built[key]


def of_module(program, n_heads=None, call=None, roles=None, packed=None, self_attention=False,
              masks="any", batch_first=True):
    """Return (Module, heads): of a module, with heads = (h, d), or of what builds one, with None.

    Raises ValueError where its number of heads is missing or does not divide its width,
    RefusalError where it cannot be made or its width cannot be seen.
    """
    call = call or PLAIN[masks != "none", self_attention]
    if isinstance(program, type) or not slots.framework(program):
        return Module(program, call, roles, packed, batch_first=batch_first), None
    known = libraries.known(program)
    n_heads = n_heads or (known and known.n_heads)
    if n_heads is None:
        raise ValueError("how many heads a module has must be said: n_heads=")
    held = slots.named(roles or {}, packed)
    d_model = known.d_model if known else _width(program, held[0] if held else None)
    d_head = checks.divisible(d_model, n_heads)
    build = Module(lambda *_: program, call, roles, packed, (d_model, n_heads), batch_first)
    return build, (n_heads, d_head)


@contextlib.contextmanager
def kept(program):
    """Give a Keras layer its own weights back at the end; torch modules are copied anyway."""
    layer = not isinstance(program, type) and slots.framework(program) == "tensorflow"
    before = program.get_weights() if layer else []
    try:
        yield
    finally:
        if before:
            program.set_weights(before)


def _wanted(module, call):
    """Return the argument by which a module is asked for its weights, or nothing."""
    function = call
    if call in PLAIN.values():
        function = module.forward if slots.framework(module) == "torch" else module.call
    names = inspect.signature(function).parameters
    return next((name for name in libraries.ASKING if name in names), "")


def _lazy(module):
    """Return whether a torch module has parameters that wait for its first call."""
    lazy = sys.modules["torch"].nn.parameter.is_lazy
    return any(map(lazy, module.parameters()))


def _width(module, slot):
    """Return d_model of a module, from a kernel (d_model, d_model) or what holds several."""
    if slots.framework(module) == "torch" and _lazy(module):
        raise _subject.RefusalError("has weights whose shapes are not known before its first call; "
                                    "call it once, or hand over its class")
    if slot is None:
        counts = [math.prod(w.shape) for w in _weights(module) if len(w.shape) > 1]
        widths = [math.isqrt(n) for n in counts if math.isqrt(n) ** 2 == n]
        if not widths:
            raise _subject.RefusalError("holds no square weight, so its width cannot be seen; say "
                                        'roles={"q": name, …}')
        return max(widths)
    with _subject.refusing():
        kernel, _ = slots.parts(module, slot.name)
    return math.isqrt(math.prod(kernel.shape) // len(slot.letters))


def _weights(module):
    return module.parameters() if slots.framework(module) == "torch" else module.weights
