"""Attention over sequences of different lengths that stand in one row, without padding.

A *ragged batch* has all tokens of all sequences behind one another on one axis. ``starts`` says
where each sequence begins. Taught in chapter `serving`.
"""

import torch

from .. import checks, masks
from ..checks import ragged as ragged_checks
from .grouped import grouped_attention


def starts(lengths):
    """Return where each sequence starts, and where the last one ends.

    (b,) -> (b + 1,), int64. PyTorch's ``varlen_attn`` calls this ``cu_seq_q``. Raises TypeError or
    ValueError unless lengths are integers, 0 or more.
    """
    lengths = ragged_checks.lengths(lengths)
    return torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))


def owners(row_starts):
    """Return the sequence of each token of the row, (b + 1,) -> (n,)."""
    lengths = ragged_checks.starts(row_starts).diff()
    return torch.arange(len(lengths)).repeat_interleave(lengths)


def token_positions(row_starts, held=0):
    """Return each token's position in its sequence, (b + 1,) -> (n,).

    ``held``, one number or (b,), is how many tokens of each sequence came before, in a cache.
    Raises TypeError or ValueError for starts or ``held`` that do not fit.
    """
    row_starts = ragged_checks.starts(row_starts)
    shift = ragged_checks.held(held, row_starts) - row_starts[:-1]  # (b,)
    return torch.arange(row_starts[-1]) + shift[owners(row_starts)]


def ragged_keep(q_starts, k_starts=None, causal=True):
    """Return keep (i, j): True for keys of the query's own sequence.

    If ``causal``, the last query of each sequence has the position of its last key (lower-right
    alignment), and later keys are masked. ``k_starts`` None = those of the queries. Raises as
    ``ragged_attention`` does.
    """
    q_starts, k_starts = ragged_checks.both_starts(q_starts, k_starts, causal)
    same = owners(q_starts)[:, None] == owners(k_starts)
    if not causal:
        return same
    held = k_starts.diff() - q_starts.diff()  # (b,)
    return same & (token_positions(k_starts) <= token_positions(q_starts, held)[:, None])


def ragged_attention(q, k, v, q_starts, k_starts=None, causal=True):
    """Return the context of sequences that stand in one row, (h, i, d_v).

    q is (h, i, d), k (h_kv, j, d), v (h_kv, j, d_v); ``q_starts`` and ``k_starts``, (b + 1,), are
    from ``starts``, and ``k_starts`` None = those of the queries. Each sequence is computed by
    itself, so no score between two sequences is. ``causal`` as in ``ragged_keep``. k and v may have
    fewer heads than q. Raises ValueError or TypeError for sides or starts that do not fit.
    """
    contexts = []
    for rows, columns in ragged_checks.ragged(q, k, v, q_starts, k_starts, causal):
        own_q, own_k, own_v = q[None, :, rows], *(side[None, :, columns] for side in (k, v))
        n_q, n_k, keep = own_q.shape[2], own_k.shape[2], None
        if causal and n_q > 1:
            keep = masks.causal(n_q, n_k, "bottom_right")
        contexts.append(grouped_attention(own_q, own_k, own_v, keep)[0])
    return torch.cat(contexts, dim=1)  # (h, i, d_v)


def tree_keep(parents, held=0):
    """Return keep (i, held + i): the cached tokens, the ancestors, itself.

    ``parents``, (i,), are integers: the index of the token that each one continues, -1 = the last
    of the ``held`` cached tokens. A parent comes before its children. A token's position is
    the number of keys it may attend to, minus 1. Raises TypeError or ValueError otherwise.
    """
    parents = ragged_checks.parents(parents)
    held = checks.count(held, "held", 0)
    keep = torch.eye(len(parents), dtype=torch.bool)
    for i, parent in enumerate(parents):
        if parent >= 0:
            keep[i] |= keep[parent]  # what the parent may attend to
    cached = torch.ones(len(parents), held, dtype=torch.bool)
    return torch.cat((cached, keep), dim=1)
