"""Masks of the layers in this zoo: keep (bool, True = may attend) as their signatures want it."""

import numpy as np


def four_axes(keep):
    """Return keep, which broadcasts to (b, h, i, j), with all four axes; None stays None."""
    while keep is not None and len(keep.shape) < 4:
        keep = keep[None]
    return keep


def of_all_heads(keep):
    """Return the mask that is the same for all heads, (b or 1, i or 1, j); None stays None."""
    return keep if keep is None else four_axes(keep)[:, 0]


def of_keys(keep, batch, n_k):
    """Return a padding mask of torch tensors, (b, j); None stays None."""
    return keep if keep is None else of_all_heads(keep)[:, 0].expand(batch, n_k)


def of_lengths(keep, batch):
    """Return how many keys each example has, (b,), int32, from a padding mask; None stays None."""
    if keep is None:
        return None
    return np.broadcast_to(np.sum(of_all_heads(keep)[:, 0], axis=-1, dtype="int32"), batch)


def folded(keep, x, memory, n_heads):
    """Return a torch mask with one entry for each pair, (b * h, i, j); None stays None."""
    if keep is None:
        return None
    shape = len(x), n_heads, x.shape[1], memory.shape[1]
    return four_axes(keep).expand(shape).flatten(0, 1)
