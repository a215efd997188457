"""The first of several parameters belongs to `make test`, the others to `make test-all`."""

import pytest


def first(values, count=1):
    """Return the values for ``parametrize``; all but the first, or ``count``, are marked slow."""
    values = list(values)
    return [*values[:count], *(pytest.param(value, marks=pytest.mark.slow)
                               for value in values[count:])]
