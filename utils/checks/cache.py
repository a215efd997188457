"""What a cache refuses, with the numbers that disagree. Used by ``utils.attention.cache``."""

import torch


def window(window):
    """Return ``window``. Raises ValueError unless it is None or at least 1."""
    if window is not None and window < 1:
        raise ValueError(f"window={window}: a query sees its own position at least, so 1 or more; "
                         "None is no window")
    return window


def same_window(attention, cache):
    """Raise ValueError unless an attention and its cache, if any, have one window."""
    if cache is not None and cache.window != attention.window:
        raise ValueError(f"the attention has window={attention.window}, its cache window="
                         f"{cache.window}: make it Cache({attention.window})")


def positions(positions, batch, length):
    """Raise unless positions fit ``batch`` texts of ``length`` words: (i,) or (b, i), integers.

    ValueError for another shape, TypeError for another dtype.
    """
    shape = tuple(positions.shape)
    if shape not in ((length,), (batch, length)):
        raise ValueError(f"positions {shape} do not fit {batch} texts of {length} new words: "
                         f"({length},) or ({batch}, {length})")
    if positions.dtype == torch.bool or positions.is_floating_point():
        raise TypeError(f"positions are {positions.dtype}: integers are meant, where each word "
                        "stands, -1 for padding; of a mask of words (b, i) make them by "
                        "(words.cumsum(-1) - 1).masked_fill(~words, -1)")


def fits(held, k, v, new):
    """Raise unless new keys, values and positions fit each other and those held, if any.

    ValueError for sizes, or when a position is not later than those held of the same text;
    TypeError for a dtype or device.
    """
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(f"keys {tuple(k.shape)} and values {tuple(v.shape)}: all but the last "
                         "axis must be the same")
    positions(new, k.shape[0], k.shape[-2])
    if held is None:
        return
    for name, old, given in (("keys", held[0], k), ("values", held[1], v)):
        if old.dtype != given.dtype or old.device != given.device:
            raise TypeError(f"the cache holds {name} of {old.dtype} on {old.device}, those that "
                            f"arrive are {given.dtype} on {given.device}")
        if (*old.shape[:2], old.shape[3]) != (*given.shape[:2], given.shape[3]):
            raise ValueError(f"the cache holds {name} {tuple(old.shape)}, those that arrive are "
                             f"{tuple(given.shape)}: (b, h, j, d), and only j may change; a new "
                             "text needs a new cache")
    if new.ndim != held[2].ndim:
        raise ValueError(f"the cache holds positions {tuple(held[2].shape)}, those that arrive "
                         f"are {tuple(new.shape)}: keep to one form, (j,) or (b, j)")
    last = latest(held[2])
    early = (new >= 0) & (new <= last)
    if early.any():
        where = tuple(early.nonzero()[0].tolist())
        raise ValueError(f"a word arrives at position {new[where]}, but the cache reaches to "
                         f"position {last[where[:-1]].item()}: a chunk goes on where the last "
                         "one ended")


def latest(positions):
    """Return the last position of each text, (j,) -> (1,) or (b, j) -> (b, 1); -1 without words."""
    if not positions.shape[-1]:
        return positions.new_full((*positions.shape[:-1], 1), -1)
    return positions.amax(dim=-1, keepdim=True)


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
                         "would need: decode under torch.no_grad(), or use "
                         "utils.attention.cache.Cache")
