"""Checks of the arguments of ``utils.attention.cache`` and ``utils.attention.grouped``."""

import torch

from .numbers import count, counts
from .sides import inputs, sides


def window(window):
    """Return ``window``. Raises ValueError unless it is None or at least 1, and so an integer."""
    return None if window is None else count(window, "window")


def step(attention, x, cache):
    """Raise unless x (b, i, e) fits the layer, and its cache, if it has one, has its window.

    The error is that of ``checks.inputs`` for x, and ValueError for another window.
    """
    inputs(attention.W_qkv, x)
    if cache is not None and cache.window != attention.window:
        raise ValueError(f"the layer has window={attention.window}, but its cache has window="
                         f"{cache.window}: create the cache with Cache({attention.window})")


def positions(positions, batch, length):
    """Raise unless positions are integers, (i,) or (b, i), for ``batch`` rows of ``length`` tokens.

    The error is ValueError for a wrong shape, TypeError for a wrong dtype.
    """
    shape = tuple(positions.shape)
    if shape not in ((length,), (batch, length)):
        raise ValueError(f"positions must be ({length},) or ({batch}, {length}) for {batch} "
                         f"sequences of {length} new tokens, got {shape}")
    if positions.dtype == torch.bool or positions.is_floating_point():
        raise TypeError("positions must be integers, -1 for padding, got "
                        f"{positions.dtype}; from a bool mask real (b, i), True where there is a "
                        "token, compute (real.cumsum(-1) - 1).masked_fill(~real, -1)")


def fits(held, k, v, new):
    """Raise unless new keys, values and positions fit each other and those in the cache.

    The error is ValueError for wrong shapes, or for a position that does not follow those held of
    the same sequence, and TypeError for another dtype or device.
    """
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError("keys and values must have equal shapes except for the last axis, got "
                         f"{tuple(k.shape)} and {tuple(v.shape)}")
    positions(new, k.shape[0], k.shape[-2])
    if held is None:
        return
    for name, old, given in (("keys", held[0], k), ("values", held[1], v)):
        if old.dtype != given.dtype or old.device != given.device:
            raise TypeError(f"the cache holds {name} of {old.dtype} on {old.device}, got new "
                            f"{name} of {given.dtype} on {given.device}")
        if (*old.shape[:2], old.shape[3]) != (*given.shape[:2], given.shape[3]):
            raise ValueError(f"the cache holds {name} (b, h, j, d) = {tuple(old.shape)}, got new "
                             f"{name} {tuple(given.shape)}: only j may differ; a new batch of "
                             "sequences needs a new cache")
    if new.ndim != held[2].ndim:
        raise ValueError(f"the cache holds positions {tuple(held[2].shape)}, got new positions "
                         f"{tuple(new.shape)}: all must be (j,), or all (b, j)")
    last = latest(held[2])
    early = (new >= 0) & (new <= last)
    if early.any():
        where = tuple(early.nonzero()[0].tolist())
        raise ValueError(f"got a new token at position {new[where]}, but the cache already holds "
                         f"position {last[where[:-1]].item()}: new positions must follow those "
                         "in the cache")


def latest(positions):
    """Return each sequence's last position, (j,) -> (1,) or (b, j) -> (b, 1); -1 if it is empty."""
    if not positions.shape[-1]:
        return positions.new_full((*positions.shape[:-1], 1), -1)
    return positions.amax(dim=-1, keepdim=True)


def group(n_heads, n_kv_heads):
    """Return how many heads of q share each head of k and v.

    Raises ValueError when n_heads is not a multiple of n_kv_heads, TypeError unless it is a count.
    """
    counts(n_heads=n_heads, n_kv_heads=n_kv_heads)
    if n_heads % n_kv_heads:
        possible = [n for n in range(1, n_heads + 1) if n_heads % n == 0]
        raise ValueError(f"n_kv_heads must divide n_heads={n_heads}, got n_kv_heads={n_kv_heads}; "
                         f"possible: {', '.join(map(str, possible))}")
    return n_heads // n_kv_heads


def shared(q, k, v):
    """Return how many heads of q, (b, h, i, d), share each head of k and v, (b, h_kv, j, …).

    Raises ValueError when the shapes are not of this form or do not fit together.
    """
    sides(q, k, v, grouped=True)
    shapes = [tuple(side.shape) for side in (q, k, v)]
    if {len(shape) for shape in shapes} != {4} or shapes[1][:3] != shapes[2][:3]:
        raise ValueError("q, k and v must be (b, h, i, d), (b, h_kv, j, d) and (b, h_kv, j, d_v), "
                         f"got {', '.join(map(str, shapes))}")
    return group(q.shape[1], k.shape[1])


def room(room):
    """Return ``room``. Raises ValueError unless it is at least 1, and so an integer."""
    return count(room, "room")


def fits_room(room, held, new):
    """Raise ValueError unless ``held`` and ``new`` columns together fit into ``room``."""
    if held + new > room:
        raise ValueError(f"the cache has room={room}, but holds {held} columns and got {new} new "
                         f"ones: create it with room={held + new} or more, or, if it has a "
                         "window, pass smaller chunks")


def not_recorded(k, v):
    """Raise ValueError when a gradient would flow through k or v."""
    if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
        raise ValueError("k or v requires a gradient, but this cache overwrites values that the "
                         "backward pass would need: decode under torch.no_grad(), or use "
                         "utils.attention.cache.Cache")
