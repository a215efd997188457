"""A torch module or Keras layer as a function of its weights, which are written into it."""

import contextlib
import copy
import inspect
import math
import sys

import numpy as np

from ... import checks, frameworks
from .. import _subject, faulty
from . import bare, guess, libraries, slots

PLAIN = {(True, False): libraries.plain, (True, True): libraries.plain_self,  # masks, alone
         (False, False): libraries.unmasked, (False, True): libraries.unmasked_self}
SIZE = (12, 3)  # d_model and n_heads of a class, as long as nothing speaks for others


class Module:
    """A module as a layer ``(x, memory, weights, n_heads, keep) -> out``.

    ``build(d_model, n_heads)`` makes the module and ``call(module, x, memory, keep)`` returns out.
    ``roles`` is {"q": name, …} of parts or parameters, and ``packed`` the name of the part that
    holds [q | k | v]. If neither is given, a layer of PyTorch or Keras is known, and the roles of
    other modules are guessed. If that fails, ``roles_problem`` says why, and the module keeps its
    own weights. ``weights_argument``: the argument that makes it return its weights, or "".
    ``unbiased``: the letters without a bias. ``no_output``: it has no W_o. ``wide``: each head is
    as wide as the model. ``one_of``: the letters of which the heads share ``kv`` projections.
    ``where``: the guessed roles in words. ``unknown``: the names of matrices without a role.
    ``inside``: in words, a part that is an attention by its name, or "". ``normed``: whether it
    holds a LayerNorm.
    """

    def __init__(self, build, call, roles=None, packed=None, size=SIZE, batch_first=True):
        with _subject.refusing():
            sample = build(*size)
        if not slots.framework(sample):
            raise _subject.RefusalError(
                "is neither a torch module nor a Keras layer, so the doctor cannot write weights "
                "into it; write its attention as a function of x, memory, weights, n_heads and "
                "keep")
        known = libraries.known(sample)
        if known and not (roles or packed):
            roles, packed = known.roles, known.packed
        if known and call in PLAIN.values():
            call, batch_first = known.call, True  # it knows its own layout
        self.sized = "n_heads" in inspect.signature(call).parameters
        self.weights_argument = _weights_argument(sample, call)
        self.call = call if batch_first else libraries.sequence_first(call, 1)
        self.build, self.built, self.written = build, {}, {}
        self.framework, self.__name__ = slots.framework(sample), type(sample).__name__
        self.slots_given, self.guessed = slots.named(roles or {}, packed), not roles and not packed
        self.roles_problem, self.unbiased, self.where, self.one_of = "", "", "", ""
        self.no_output = self.wide = False
        self.unknown, self.inside, self.normed, self.kv = [], "", False, 1
        self.epsilon = faulty.layer.EPSILON
        with _subject.refusing():
            self._inspect(size)

    def _inspect(self, size):
        """Find where a module stores its weights, which of them have no bias, and its epsilon."""
        sample = self._module(*size, "float32", [self._tensor(np.ones((2, 4, size[0])))] * 2)
        self.epsilon = libraries.epsilon(sample) or faulty.layer.EPSILON
        try:
            mine = self._found(sample, *size)
        except guess.RolesError as error:
            self.roles_problem = str(error)
        else:
            self.unbiased = "".join(slot.letters for slot in mine
                                    if slots.parts(sample, slot.name)[1] is None)
            self.no_output = self.guessed and all("o" not in slot.letters for slot in mine)
            self.one_of = "".join(slot.shared for slot in mine)
            self.kv = max(slot.kv for slot in mine)
            self.unknown, self.inside = bare.unknown(sample, mine), bare.inside(sample)
            self.normed = bool(libraries.norms(sample))
            self.where = ", ".join(f"{' | '.join(slot.letters)} in {slot.name}" for slot in mine
                                   if not slot.head)

    def __call__(self, x, memory, weights, n_heads, keep, **asked):
        weights = {name: checks.to_numpy(w) for name, w in weights.items()}
        size = len(weights["W_q"]), n_heads
        module = self._module(*size, checks.dtype_name(x), (x, memory))
        before = weights if self.roles_problem else self.written.get(id(module), {})
        new = {name[-1] for name, w in weights.items() if not np.array_equal(w, before.get(name))}
        for slot in self._slots(module, *size) if new else ():
            if new & {*slot.letters}:
                slots.write(module, slot, weights, n_heads)
        self.written[id(module)] = weights
        return self.call(module, x, memory, keep, **asked | (
            {"n_heads": n_heads} if self.sized else {}))

    def with_returned_weights(self, *args):
        """Return (out, weights); for a module with a ``weights_argument``."""
        return self(*args, **{self.weights_argument: True})

    def parameters(self):
        """Return how many elements the parameters have, those of a LayerNorm left out."""
        module = next(iter(self.built.values()))
        norms = sum(math.prod(w.shape) for norm in libraries.norms(module)
                    for w in guess.all_weights(norm))
        return sum(math.prod(w.shape) for w in guess.all_weights(module)) - norms

    def _found(self, module, d_model, n_heads):
        """Return the Slots of a module; its heads may be as wide as the model."""
        try:
            return self._slots(module, d_model, n_heads)
        except guess.RolesError as error:
            self.wide = n_heads > 1
            with contextlib.suppress(guess.RolesError):
                found = self._slots(module, d_model, n_heads)
                if {"q", "k", "v"} <= {guess.letter(slot.name) for slot in found}:
                    return found
            self.wide = False
            raise error from None

    def _slots(self, module, d_model, n_heads):
        if self.guessed:
            return guess.guess(module, d_model, n_heads, self.wide)
        return self.slots_given

    def _tensor(self, x):
        if self.framework == "torch":
            return sys.modules["torch"].as_tensor(x, dtype=sys.modules["torch"].float32)
        return frameworks.tensorflow().constant(x, "float32")

    def _module(self, d_model, n_heads, dtype, sides):
        """Return the module of this size and dtype; a lazy one has been called once."""
        key = d_model, n_heads, dtype
        if key not in self.built and self.framework == "torch":
            module = copy.deepcopy(self.build(d_model, n_heads))
            self.built[key] = module.to(getattr(sys.modules["torch"], dtype)).eval()
            if guess.is_lazy(module):  # it has no shapes before its first call
                self.call(module, *sides, None)
            libraries.reset_norms(module)
        elif key not in self.built:
            with frameworks.keras_dtype(dtype):
                self.built[key] = self.build(d_model, n_heads)
                self.call(self.built[key], *sides, None)
            libraries.reset_norms(self.built[key])
        return self.built[key]


def of_module(program, n_heads=None, call=None, roles=None, packed=None, self_attention=False,
              masks="any", batch_first=True, size=None):
    """Return (Module, heads); heads is (h, d) for an instance, and None for a class or builder.

    ``size``: (d_model, n_heads) of a class or builder that is examined in this size only.

    Raises ValueError if the number of heads of an instance is missing or does not divide its width,
    and RefusalError if a module cannot be built or its width cannot be found.
    """
    call = call or PLAIN[masks != "none", self_attention]
    if isinstance(program, type) or not slots.framework(program):
        return Module(program, call, roles, packed, size or SIZE, batch_first), None
    known = libraries.known(program)
    n_heads = n_heads or (known and known.n_heads)
    if n_heads is None:
        raise ValueError("it does not say how many heads it has: pass `n_heads=…`")
    held = slots.named(roles or {}, packed)
    d_model = known.d_model if known else guess.width(program, held[0] if held else None)
    if packed and not known:
        shape = tuple(slots.tensors(program, packed)[0].shape)
        if math.prod(shape) != 3 * d_model ** 2:
            raise _subject.RefusalError(
                f"has {packed} of shape {shape}, which is not three projections of one size; if "
                "heads share k and v, leave packed= out, and the doctor finds them")
    d_head = checks.divisible(d_model, n_heads)
    build = Module(lambda *_: program, call, roles, packed, (d_model, n_heads), batch_first)
    return build, (n_heads, d_head)


@contextlib.contextmanager
def restored(program):
    """Restore the weights of a Keras layer at the end of the block; torch modules are copied."""
    layer = not isinstance(program, type) and slots.framework(program) == "tensorflow"
    before = program.get_weights() if layer else []
    try:
        yield
    finally:
        if before:
            program.set_weights(before)


def _weights_argument(module, call):
    """Return the argument that makes a module return its weights, or ""."""
    function = call
    if call in PLAIN.values():
        function = module.forward if slots.framework(module) == "torch" else module.call
    names = inspect.signature(function).parameters
    return next((name for name in libraries.ASKING if name in names), "")
