"""What grouped attention and its cache refuse, with the numbers that disagree."""

import torch


def group(n_heads, n_kv_heads):
    """Return how many heads of q share one head of k and v.

    Raises ValueError when n_heads is not a multiple of n_kv_heads.
    """
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        possible = [n for n in range(1, n_heads + 1) if n_heads % n == 0]
        raise ValueError(f"{n_heads} heads of q cannot share {n_kv_heads} heads of k and v equally:"
                         f" n_kv_heads may be {', '.join(map(str, possible))}")
    return n_heads // n_kv_heads


def shared(q, k, v):
    """Return how many heads of q, (b, h, i, d), share one head of k and v, (b, h_kv, j, …).

    Raises ValueError for other axes, or for heads, texts or keys whose numbers do not fit.
    """
    shapes = [tuple(side.shape) for side in (q, k, v)]
    if {len(shape) for shape in shapes} != {4} or shapes[1][:3] != shapes[2][:3] or (
            shapes[0][0] != shapes[1][0]):
        raise ValueError("q (b, h, i, d), k (b, h_kv, j, d) and v (b, h_kv, j, d_v) are asked for, "
                         f"got {', '.join(map(str, shapes))}")
    return group(q.shape[1], k.shape[1])


def room(room):
    """Return ``room``. Raises ValueError unless it is at least 1."""
    if room < 1:
        raise ValueError(f"room={room}: for how many tokens is the cache to be, 1 or more?")
    return room


def fits_room(room, held, new):
    """Raise ValueError unless ``new`` columns have room beside those ``held``."""
    if held + new > room:
        raise ValueError(f"room={room}, but {held} columns are held and {new} arrive: make the "
                         f"cache with room={held + new} or more, or read in smaller chunks if it "
                         "has a window")


def not_recorded(k, v):
    """Raise ValueError when a gradient would flow through k or v."""
    if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
        raise ValueError("k or v requires a gradient, and this cache overwrites what a gradient "
                         "would need: decode under torch.no_grad(), or take utils.cache.Cache")
