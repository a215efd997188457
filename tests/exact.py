"""How tests name an error: by its whole message."""

from contextlib import contextmanager

import pytest


@contextmanager
def raises(error, message):
    """Check that the block raises ``error`` with exactly this message."""
    with pytest.raises(error) as caught:
        yield
    assert str(caught.value) == message
