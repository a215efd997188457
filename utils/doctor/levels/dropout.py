"""Programs run without dropout, whatever they say."""

import contextlib
import sys
from unittest import mock

import numpy as np


class Undropped:
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
