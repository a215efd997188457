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
    tame = []  # (where it lives, its name, what stands in for it)
    if "torch" in sys.modules:
        functional = sys.modules["torch"].nn.functional
        fused = functional.scaled_dot_product_attention
        tame += [(functional, "dropout", _as_it_is),
                 (functional, "scaled_dot_product_attention", _without_dropout_p(fused))]
    if "tensorflow" in sys.modules:
        tame.append((sys.modules["tensorflow"].nn, "dropout", _as_it_is))
    with contextlib.ExitStack() as stack:
        for home, name, other in tame:
            wild = getattr(home, name)
            for scope in _scopes(program):
                own = {key: other for key, value in scope.items() if value is wild}
                stack.enter_context(mock.patch.dict(scope, own))
            stack.enter_context(mock.patch.object(home, name, other))
        yield


def _scopes(program):
    """Yield the global names of a function, and of those that it is put together from."""
    parts = [program, getattr(program, "func", None), *getattr(program, "args", ()),
             *getattr(program, "keywords", {}).values()]
    yield from (part.__globals__ for part in parts if hasattr(part, "__globals__"))


def _as_it_is(x, *args, **kwargs):
    return x


def _without_dropout_p(function):
    def call(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        return function(query, key, value, attn_mask, 0.0, *args, **kwargs)
    return call
