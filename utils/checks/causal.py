"""Combine a mask with ``causal=True``, for the PyTorch programs that take both."""

import torch

from .. import checks


def tiled_keep(q, k, v, keep, causal, tile):
    """Return ``keep`` as a bool tensor of at least two axes, or None; check all arguments.

    Raises ValueError unless q is (b, h, i, d), k (b, h, j, d) and v (b, h, j, d_v), the mask fits,
    n_q == n_k if ``causal``, and ``tile`` is at least 1; TypeError for a mask that is not bool.
    """
    keep = checks.keep(keep, q, k, v)
    checks.check_shapes("b h i d, b h j d, b h j e", q, k, v)
    checks.count(tile, "tile")
    if causal:
        square(q, k)
    return keep


def with_causal(keep, causal, q, k):
    """Return ``keep``, combined with the causal mask if ``causal`` is True.

    q is (…, i, d), k is (…, j, d). ``keep`` is None or a bool tensor that broadcasts to (…, i, j),
    as ``checks.keep`` returns it, and so is the result. Raises ValueError for ``causal`` with
    n_q != n_k, where its alignment is not known.
    """
    if not causal:
        return keep
    square(q, k)
    n = q.shape[-2]
    past = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()  # (i, j)
    return past if keep is None else keep & past


def square(q, k):
    """Raise ValueError unless q (…, i, d) and k (…, j, d) have equally many rows."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_q != n_k:
        raise ValueError(f"causal=True requires n_q == n_k, got n_q={n_q} and n_k={n_k}: choose an "
                         "alignment with keep=masks.causal(n_q, n_k, align=...)")
