"""A torch module or Keras layer as a function of its weights, which are written into it."""

import contextlib
import copy
import inspect
import math

import numpy as np

from ... import checks, frameworks
from .. import _subject, backends, faulty
from . import bare, guess, libraries, slots

SIZE = (12, 3)  # d_model and n_heads of a class, as long as nothing speaks for others


class Module:
    """A module as a layer ``(x, memory, weights, n_heads, keep) -> out``.

    ``build(d_model, n_heads)`` makes the module and ``call(module, x, memory, keep)`` returns out.
    ``roles`` is {"q": name, …} of parts or parameters, and ``packed`` the name of the part that
    holds [q | k | v]. If neither is given, a layer of PyTorch or Keras is known, and the roles of
    other modules are guessed. If that fails, ``roles_problem`` says why, and the module keeps its
    own weights. ``weights_argument``: the argument that makes it return its weights, or "".
    ``held``: the Slots of its weights. ``unsure``: the letters that may be stored transposed.
    ``unbiased``: the letters without a bias. ``no_output``: it has no W_o. ``wide``: each head is
    as wide as the model. ``one_of``: the letters of which the heads share ``kv`` projections.
    ``where``: the guessed roles in words. ``unknown``: the names of matrices without a role.
    ``inside``: in words, a part that is an attention by its name, or "". ``normed``: whether it
    holds a LayerNorm.
    """

    roles_problem = unsure = unbiased = one_of = where = inside = ""
    no_output = wide = normed = False
    unknown, kv = (), 1

    def __init__(self, build, call, roles=None, packed=None, size=SIZE, batch_first=True):
        with _subject.refusing():
            sample = build(*size)
        self.backend = backends.of_module(sample)
        if not self.backend:
            raise _subject.RefusalError(
                "is neither a torch module nor a Keras layer, so the doctor cannot write weights "
                "into it; write its attention as a function of x, memory, weights, n_heads and "
                "keep")
        known = libraries.known(sample)
        if known and not (roles or packed):
            roles, packed = known.roles, known.packed
        if known and call in libraries.PLAIN.values():
            call, batch_first = known.call, True  # it knows its own layout
        self.sized = "n_heads" in inspect.signature(call).parameters
        method = call
        if call in libraries.PLAIN.values():
            method = sample.forward if self.backend is backends.TORCH else sample.call
        names = inspect.signature(method).parameters
        self.weights_argument = next((name for name in libraries.ASKING if name in names), "")
        self.call = call if batch_first else libraries.sequence_first(call, 1)
        self.build, self.built, self.written = build, {}, {}
        self.framework, self.__name__ = self.backend.name, type(sample).__name__
        self.held, self.guessed = slots.named(roles or {}, packed), not roles and not packed
        with _subject.refusing():
            x = self.backend.array(np.ones((2, 4, size[0]), "float32"))
            self.sample = self._module(*size, "float32", (x, x))
            self.epsilon = libraries.epsilon(self.sample) or faulty.layer.EPSILON
            try:
                self._inspect(self.sample, self._found(self.sample, *size))
            except guess.RolesError as error:
                self.roles_problem = str(error)

    def _inspect(self, sample, held):
        """Find out what a module that stores its weights in these Slots has and has not."""
        self.held, self.unsure = held, slots.unsure(sample, held)
        self.unbiased = "".join(slot.letters for slot in held
                                if slots.parts(sample, slot.name)[1] is None)
        self.no_output = self.guessed and all("o" not in slot.letters for slot in held)
        self.one_of = "".join(slot.shared for slot in held)
        self.kv = max(slot.kv for slot in held)
        if self.framework == "torch":
            self.unknown, self.inside = bare.unknown(sample, held), bare.inside(sample)
        self.normed = bool(libraries.norms(sample))
        self.where = ", ".join(f"{' | '.join(slot.letters)} in {slot.name}" for slot in held
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
        if self.sized:
            asked["n_heads"] = n_heads
        return self.call(module, x, memory, keep, **asked)

    def with_returned_weights(self, *args):
        """Return (out, weights); for a module with a ``weights_argument``."""
        return self(*args, **{self.weights_argument: True})

    def parameters(self):
        """Return how many elements the parameters have, those of a LayerNorm left out."""
        def size(module):
            return sum(math.prod(w.shape) for w in guess.all_weights(module))

        return size(self.sample) - sum(map(size, libraries.norms(self.sample)))

    def _found(self, module, d_model, n_heads):
        """Return the Slots of a module; its heads may be as wide as the model."""
        try:
            return self._slots(module, d_model, n_heads)
        except guess.RolesError:
            self.wide = True
            with contextlib.suppress(guess.RolesError):
                found = self._slots(module, d_model, n_heads)
                if {"q", "k", "v"} <= {guess.letter(slot.name) for slot in found}:
                    return found
            self.wide = False
            raise

    def _slots(self, module, d_model, n_heads):
        return guess.guess(module, d_model, n_heads, self.wide) if self.guessed else self.held

    def _module(self, d_model, n_heads, dtype, sides):
        """Return the module of this size and dtype; its weights have their shapes."""
        key = d_model, n_heads, dtype
        if key not in self.built:
            if self.framework == "torch":
                module = copy.deepcopy(self.build(d_model, n_heads))
                module = module.to(getattr(self.backend.library, dtype)).eval()
                if guess.is_lazy(module):
                    self.call(module, *sides, None)
            else:
                with frameworks.keras_dtype(dtype):
                    module = self.build(d_model, n_heads)
                    self.call(module, *sides, None)
            libraries.reset_norms(module)
            self.built[key] = module
        return self.built[key]


def of_module(program, n_heads=None, call=None, roles=None, packed=None, self_attention=False,
              masks="any", batch_first=True, size=None):
    """Return (Module, heads); heads is (h, d) for an instance, and None for a class or builder.

    ``size``: (d_model, n_heads) of a class or builder that is examined in this size only.

    Raises ValueError if the number of heads of an instance is missing or does not divide its width,
    and RefusalError if a module cannot be built or its width cannot be found.
    """
    call = call or libraries.PLAIN[masks != "none", self_attention]
    if isinstance(program, type) or not backends.of_module(program):
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
    heads = n_heads, checks.divisible(d_model, n_heads)
    return Module(lambda *_: program, call, roles, packed, (d_model, n_heads), batch_first), heads


@contextlib.contextmanager
def restored(program):
    """Restore the weights of a Keras layer at the end of the block; torch modules are copied."""
    layer = not isinstance(program, type) and backends.of_module(program) is backends.TENSORFLOW
    before = program.get_weights() if layer else []
    try:
        yield
    finally:
        if before:
            program.set_weights(before)
