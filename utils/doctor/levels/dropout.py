"""Programs run without dropout, whatever they say."""

import contextlib
import sys
from unittest import mock

import numpy as np

from utils.doctor import _subject
from utils.doctor.levels.kernel_cases import weights_of

RUNS = 64  # of a program with dropout: at p = 0.8 a weight is dropped in all with chance 1e-6


class FrameworkDropoutOff:
    """A program with dropout, as it would be without; ``dropout`` tells whether that was all.

    Dropout is what PyTorch, TensorFlow and Keras call so; a program that draws its own random
    numbers stays random, and then ``dropout`` is False.
    """

    kind = "the dropout of a framework"

    def __init__(self, subject):
        self.subject = subject
        self.dropout = True

    def __call__(self, *args):
        with _no_dropout(getattr(self.subject, "program", None)):
            first, second = self.subject(*args), self.subject(*args)
        self.dropout &= first.out is None or np.array_equal(first.out, second.out, equal_nan=True)
        return first


class WeightDropoutUndone:
    """A program with dropout on its weights, as it would be without, from many runs of it.

    A dropped weight is 0, a kept one is always the same; ``dropout`` tells whether that was so.
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
                               None, "float32")

    @staticmethod
    def _share(kept, dropped):
        """Return 1 - p: from the sums of weights if they are all equal, or else by counting."""
        sums = kept.sum(axis=-1)
        sums = sums[sums > 0]
        if sums.size and np.ptp(sums) < 1e-6:
            return 1 / sums.mean()
        return 1 - round(20 * dropped.sum() / max(RUNS * (kept > 0).sum(), 1)) / 20


@contextlib.contextmanager
def _no_dropout(program):
    """Replace the dropout functions of the frameworks that are loaded by ones that do nothing.

    Also where the program's file calls them by names of its own: ``sdpa = F.scaled_dot_…``.
    """
    scopes = _scopes(program)
    with contextlib.ExitStack() as stack:
        for home, name, other in _tame():
            wild = getattr(home, name)
            for scope in scopes:
                own = {key: other for key, value in scope.items() if value is wild}
                if own:
                    stack.enter_context(mock.patch.dict(scope, own))
            stack.enter_context(mock.patch.object(home, name, other))
        yield


def _tame():
    """Return (where it lives, its name, what stands in for it) of each function with dropout."""
    found = []
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        functional = torch.nn.functional
        fused = _without_dropout_p(functional.scaled_dot_product_attention)
        found += [(torch, "dropout", _as_it_is), (functional, "dropout", _as_it_is),
                  (functional, "scaled_dot_product_attention", fused)]
    if "tensorflow" in sys.modules:
        nn = sys.modules["tensorflow"].nn
        found += [(nn, "dropout", _as_it_is), (nn.experimental, "stateless_dropout", _as_it_is)]
    return found  # the last is what Keras calls


def _scopes(program):
    """Return the global names of a function, and of all that it is put together from."""
    parts = [program, *(getattr(program, name, None) for name in ("func", "call", "program")),
             *getattr(program, "args", ()), *getattr(program, "keywords", {}).values(),
             *(method for module in getattr(program, "built", {}).values()
               for method in _methods(module))]
    found = [part.__globals__ for part in parts if hasattr(part, "__globals__")]
    return list({id(scope): scope for scope in found}.values())


def _methods(module):
    """Yield the methods of a module and its parts, those of the frameworks aside."""
    parts = module.modules() if hasattr(module, "modules") else module._flatten_layers()
    for kind in {kind for part in parts for kind in type(part).__mro__}:
        if kind.__module__.partition(".")[0] not in ("torch", "keras", "builtins"):
            yield from vars(kind).values()


def _as_it_is(x, *args, **kwargs):
    return x


def _without_dropout_p(function):
    def call(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        return function(query, key, value, attn_mask, 0.0, *args, **kwargs)
    return call
