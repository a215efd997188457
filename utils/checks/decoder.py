"""Checks of the arguments of ``utils.models.decoder`` and ``utils.models.hugging_face``."""

from .numbers import count

PLACES = ("before_attention", "after_attention", "before_feed_forward", "after_feed_forward")


def places(norms):
    """Raise ValueError unless the keys of ``norms`` are places of a norm in a block."""
    if wrong := [place for place in norms if place not in PLACES]:
        raise ValueError(f"a norm must be in one of the places {', '.join(PLACES)}, got "
                         f"{', '.join(map(str, wrong))}")


def pairs(W, n_heads):
    """Raise unless the rows of W, (h * d, …), are those of ``n_heads`` heads with an even d."""
    count(n_heads, "n_heads")
    if not hasattr(W, "shape"):
        raise TypeError(f"W must be a tensor, got {type(W).__name__}")
    if not len(W.shape) or not W.shape[0] or W.shape[0] % (2 * n_heads):
        raise ValueError(f"the rows of W must be those of n_heads={n_heads} heads with an even d, "
                         f"got {tuple(W.shape)}")


def state(state):
    """Raise TypeError unless ``state`` maps names to arrays or tensors."""
    if not hasattr(state, "items"):
        raise TypeError(f"state must map names to tensors, got {type(state).__name__}")
    for name, part in state.items():
        if not hasattr(part, "shape") or not hasattr(part, "dtype"):
            raise TypeError(f"{name} must be a tensor or an array, got {type(part).__name__}")
