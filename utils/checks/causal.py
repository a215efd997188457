"""A mask and ``causal=True`` made one, for the PyTorch programs that take both."""

import torch

from utils import checks


def tiled_keep(q, k, v, keep, causal, tile):
    """Return ``keep`` as a bool tensor of at least two axes, or None: what tiles are cut from.

    Raises ValueError unless q is (b, h, i, d), k (b, h, j, d) and v (b, h, j, d_v), the mask fits,
    ``causal`` says which corner (n_q == n_k) and a tile has at least one row; TypeError for a mask
    that is not bool.
    """
    sizes = checks.check_shapes("b h i d, b h j d, b h j e", q, k, v)
    if tile < 1:
        raise ValueError(f"tile={tile}: a tile has at least one row and one column")
    ambiguous = causal and sizes["i"] != sizes["j"]  # the other causal masks need no n × n
    return with_causal(keep, ambiguous, q, k)


def with_causal(keep, causal, q, k):
    """Return ``keep``, checked and, when ``causal`` is True, combined with the causal mask.

    q (…, i, d), k (…, j, d); the result is a bool tensor that broadcasts to (…, i, j), or None.
    Raises ValueError for ``causal`` with n_q != n_k, where it could hang from either corner.
    """
    keep = checks.keep(keep, q, k)
    if not causal:
        return keep
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_q != n_k:
        raise ValueError(f"causal=True needs n_q == n_k, got n_q={n_q} and n_k={n_k}: say which "
                         "corner is meant with keep=masks.causal(n_q, n_k, align=...)")
    past = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).tril()  # (i, j)
    return past if keep is None else keep & past
