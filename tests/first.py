"""The first of several parameters belongs to `make test`, the others to `make test-all`."""

import pytest


def first(values):
    """Return the values for ``parametrize``; all but the first are marked slow."""
    head, *rest = values
    return [head, *(pytest.param(value, marks=pytest.mark.slow) for value in rest)]
