"""Random programs as they would be without their dropout."""

import contextlib
import sys
from unittest import mock

import numpy as np

from .. import _subject, backends
from .kernel_cases import weights_of

RUNS = 64  # at p = 0.8, a weight is dropped in all of them with probability 1e-6


class FrameworkDropoutOff:
    """A program called while the dropout functions of PyTorch, TensorFlow and Keras do nothing.

    ``dropout`` becomes False if the program is still random, because it draws its own numbers.
    """

    kind = "the dropout of a framework"

    def __init__(self, subject):
        self.subject, self.dropout = subject, True

    def __call__(self, *args):
        with _no_dropout(getattr(self.subject, "program", None)):
            first, second = self.subject(*args), self.subject(*args)
        self.dropout &= first.out is None or np.array_equal(first.out, second.out, equal_nan=True)
        return first


class WeightDropoutUndone:
    """A kernel with dropout on its weights, as it would be without it, estimated from many runs.

    A dropped weight is 0 and a kept one is always the same. ``dropout`` becomes False if that is
    not so.
    """

    kind = "dropout on its weights"

    def __init__(self, subject):
        self.subject, self.dropout = subject, True

    def __call__(self, q, k, v, keep):
        args = (q, k, v, keep)
        runs = [weights_of(self.subject, args) for _ in range(RUNS)]
        if any(run is None for run in runs):
            return self.subject(*args)
        runs = np.stack(runs)
        kept = runs.max(axis=0)
        dropped = (runs == 0) & (kept > 0)
        self.dropout &= bool((dropped | np.isnan(runs) | (np.abs(runs - kept) < 1e-6)).all())
        weights = kept * self._share(kept, dropped)
        return _subject.Answer(weights @ np.repeat(v, q.shape[1] // v.shape[1], axis=1),
                               None, self.subject(*args).dtype)

    @staticmethod
    def _share(kept, dropped):
        """Return 1 - p, from the sums of the weights if all are equal, and else by counting."""
        sums = kept.sum(axis=-1)
        sums = sums[sums > 0]
        if sums.size and np.ptp(sums) < 1e-6:
            return 1 / sums.mean()
        return 1 - round(20 * dropped.sum() / max(RUNS * (kept > 0).sum(), 1)) / 20


def without(ask, program):
    """Return ``ask``, which calls a program, as a function in which frameworks drop nothing."""
    def asked(*args, **given):
        with _no_dropout(program):
            return ask(*args, **given)
    return asked


@contextlib.contextmanager
def _no_dropout(program):
    """Replace the dropout functions of the frameworks that are loaded by functions without dropout.

    Also where the program's file has its own name for them: ``sdpa = F.scaled_dot_…``.
    """
    scopes = _scopes(program)
    with contextlib.ExitStack() as stack:
        for module, name, other in _replacements():
            original = getattr(module, name)
            for scope in scopes:
                own = {key: other for key, value in scope.items() if value is original}
                if own:
                    stack.enter_context(mock.patch.dict(scope, own))
            stack.enter_context(mock.patch.object(module, name, other))
        yield


def _replacements():
    """Return (module, name, replacement) of each function with dropout."""
    found = []
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        functional = torch.nn.functional
        fused = _without_dropout_p(functional.scaled_dot_product_attention)
        found += [(torch, "dropout", _identity), (functional, "dropout", _identity),
                  (functional, "scaled_dot_product_attention", fused)]
    if "tensorflow" in sys.modules:
        nn = sys.modules["tensorflow"].nn
        found += [(nn, "dropout", _identity), (nn.experimental, "stateless_dropout", _identity)]
    return found  # Keras calls the last one


def _scopes(program):
    """Return the global names of a function, and of the functions and modules that it calls."""
    parts = [program, *(getattr(program, name, None) for name in ("func", "call", "program")),
             *getattr(program, "args", ()), *getattr(program, "keywords", {}).values(),
             *(method for module in (*getattr(program, "built", {}).values(),
                                     *([program] if backends.of_module(program) else []))
               for method in _methods(module))]
    found = [part.__globals__ for part in parts if hasattr(part, "__globals__")]
    return list({id(scope): scope for scope in found}.values())


def _methods(module):
    """Yield the methods of a module and its parts, except those of the frameworks."""
    parts = module.modules() if hasattr(module, "modules") else module._flatten_layers()
    for kind in {kind for part in parts for kind in type(part).__mro__}:
        if kind.__module__.partition(".")[0] not in ("torch", "keras", "builtins"):
            yield from vars(kind).values()


def _identity(x, *args, **kwargs):
    return x


def _without_dropout_p(function):
    def call(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        return function(query, key, value, attn_mask, 0.0, *args, **kwargs)
    return call
