"""Checks of the arguments of ``utils.attention.ragged``."""

import torch

from . import cache as cache_checks
from .numbers import integers
from .sides import array, framework


def lengths(lengths, least=0):
    """Return ``lengths`` as an int64 tensor (b,), at least one; each is ``least`` or more.

    Raises TypeError for what is not integers, ValueError otherwise.
    """
    found = torch.as_tensor(integers(lengths, "lengths"))
    if found.ndim != 1 or not len(found) or (found < least).any():
        raise ValueError(f"lengths must be (b,), at least one, each {least} or more, got "
                         f"{found.tolist()}")
    return found


def starts(starts, name="row_starts"):
    """Return ``starts`` as an int64 tensor (b + 1,): 0, then never less than before.

    Raises TypeError for what is not integers, ValueError otherwise.
    """
    found = torch.as_tensor(integers(starts, name))
    if found.ndim != 1 or len(found) < 2 or found[0] or (found.diff() < 0).any():
        raise ValueError(f"{name} must be (b + 1,): 0, then where each sequence ends, in order; "
                         f"got {found.tolist()}. From lengths (b,), call starts(lengths)")
    return found


def both_starts(q_starts, k_starts, causal):
    """Return the starts of queries and of keys; ``k_starts`` None = those of the queries.

    Raises as ``starts`` does, and ValueError for another number of sequences or, if ``causal``, for
    a sequence with fewer keys than queries.
    """
    q_starts = starts(q_starts, "q_starts")
    k_starts = q_starts if k_starts is None else starts(k_starts, "k_starts")
    if len(q_starts) != len(k_starts):
        raise ValueError(f"q_starts and k_starts must have equally many sequences, got "
                         f"{len(q_starts) - 1} and {len(k_starts) - 1}")
    few = (k_starts.diff() < q_starts.diff()).nonzero()
    if causal and len(few):
        b = few[0].item()
        raise ValueError(f"sequence {b} has {q_starts.diff()[b]} queries and "
                         f"{k_starts.diff()[b]} keys: with causal=True, the last query has the "
                         "position of the last key, so there must be at least as many keys")
    return q_starts, k_starts


def held(held, starts):
    """Return how many tokens came before, () or (b,). Raises ValueError or TypeError otherwise."""
    found = torch.as_tensor(integers(held, "held"))
    fits = found.ndim == 0 or found.shape == (len(starts) - 1,)
    if not fits or (found < 0).any():
        raise ValueError(f"held must be one number, or ({len(starts) - 1},), 0 or more, got "
                         f"{found.tolist()}")
    return found


def ragged(q, k, v, q_starts, k_starts, causal):
    """Return slices (rows, columns) of the sequences that have queries.

    Raises ValueError unless q is (h, i, d), k (h_kv, j, d), v (h_kv, j, d_v) and the starts end at
    i and j, TypeError for another dtype, and as ``both_starts`` does.
    """
    for name, side in (("q", q), ("k", k), ("v", v)):
        array(side, name)
        if len(side.shape) != 3:
            raise ValueError(f"{name} must be (heads, tokens, d), all sequences in one row, got "
                             f"{tuple(side.shape)}")
        if framework(side) != "torch":
            raise TypeError(f"{name} must be a PyTorch tensor, got {type(side).__name__}")
    cache_checks.shared(q[None], k[None], v[None])
    q_starts, k_starts = both_starts(q_starts, k_starts, causal)
    for name, found, side in (("q_starts", q_starts, q), ("k_starts", k_starts, k)):
        if found[-1] != side.shape[1]:
            raise ValueError(f"{name} ends at {found[-1]}, but {name[0]} has {side.shape[1]} "
                             "tokens")
    if not q.shape[1]:
        raise ValueError("q must have at least one token")
    edges = zip(q_starts.tolist(), q_starts.tolist()[1:], k_starts.tolist(),
                k_starts.tolist()[1:], strict=False)
    return [(slice(a, b), slice(c, d)) for a, b, c, d in edges if b > a]


def parents(parents):
    """Return ``parents`` as a list of ints: each -1 or the index of an earlier token.

    Raises TypeError for what is not integers, ValueError otherwise.
    """
    found = integers(parents, "parents")
    late = [i for i, parent in enumerate(found.ravel()) if not -1 <= parent < i]
    if found.ndim != 1 or not len(found) or late:
        where = f"; token {late[0]} has parent {found.ravel()[late[0]]}" if late else ""
        raise ValueError("parents must be (i,), each -1 or the index of an earlier token, got "
                         f"{found.tolist()}{where}")
    return found.tolist()
