"""One convention for masks, and the way to and from everybody else's.

A mask here is called ``keep``: a NumPy array of bool, **True = this query may attend to this key**,
which broadcasts to (b, h, i, j). Combine masks with ``&`` and convert once, at the end. Every
program in ``utils`` takes such an array, or a bool tensor of its own framework.
"""

import numpy as np

from utils import checks


def offsets(n_q, n_k=None, align=None):
    """Return (i, j), integers: how many positions key j lies after query i (negative: before).

    With ``align="top_left"`` query 0 stands at key 0; with ``"bottom_right"`` the last query stands
    at the last key, as in decoding with a cache. ``n_k`` defaults to n_q. Raises ValueError when
    n_q != n_k and no alignment is given.
    """
    n_k = n_q if n_k is None else n_k
    checks.corner(n_q, n_k, align)
    first = n_k - n_q if align == "bottom_right" else 0
    positions = first + np.arange(n_q)  # where the queries stand
    return np.arange(n_k) - positions[:, None]  # (i, j)


def causal(n_q, n_k=None, align=None):
    """Return keep (i, j): query i may attend to no key after its own position.

    ``align`` as in ``offsets``: needed, and only needed, when n_q != n_k.
    """
    return offsets(n_q, n_k, align) <= 0


def window(n_q, n_k, left, right=0, align=None):
    """Return keep (i, j): at most ``left`` keys before the query's own, ``right`` after it.

    ``left`` and ``right`` are counts of keys, 0 or more; ``align`` as in ``offsets``.
    """
    offset = offsets(n_q, n_k, align)
    return (-left <= offset) & (offset <= right)


def padding(lengths, n_k):
    """Return keep (b, 1, 1, j): True for the first lengths[b] keys of each example.

    ``lengths``: (b,) integers, 0 allowed. Raises ValueError when one is not in 0 .. n_k.
    """
    lengths = checks.lengths(lengths, n_k)
    return (np.arange(n_k) < lengths[:, None])[:, None, None, :]  # (b, 1, 1, j)


def band(positions, n_k, left=None, right=None):
    """Return keep for queries that stand anywhere: p may attend to keys p - left .. p + right.

    ``positions``: integers, (i,) or one row an example, (b, i): where among the keys each query
    stands, below 0 too; the result is (i, j) or (b, 1, i, j). ``left`` and ``right`` are counts of
    keys, None = no end. ``causal`` and ``window`` are bands whose queries stand in a row.
    """
    positions = np.asarray(positions)
    positions = positions[:, None] if positions.ndim == 2 else positions
    offset = np.arange(n_k) - positions[..., None]  # (…, i, j), j - p
    keep = np.ones(offset.shape, dtype=bool)
    if left is not None:
        keep &= -left <= offset
    if right is not None:
        keep &= offset <= right
    return keep


def decoder(lengths, n):
    """Return keep (b, 1, i, j) of a decoder: causal, and no padding among the keys."""
    return causal(n) & padding(lengths, n)


def to_additive(keep, dtype=np.float32):
    """Return a float array to *add* to the scores: 0 where keep is True, -inf where it is False.

    Raises TypeError for a mask that is not bool: one that is additive already would be inverted.
    """
    return np.where(checks.to_numpy(checks.boolean(keep)), 0.0, -np.inf).astype(dtype)


def from_additive(mask):
    """Return keep from an additive mask of 0 and -inf. Raises ValueError for any other value."""
    mask = np.asarray(mask)
    keep = mask == 0
    if not (keep | np.isneginf(mask)).all():
        raise ValueError("an additive mask has only 0 (may attend) and -inf (may not); this one "
                         "also has other numbers, so it is a bias, not a mask")
    return keep


def to_sdpa(keep):
    """Return ``attn_mask`` for ``F.scaled_dot_product_attention``: a bool tensor, True = attend."""
    import torch
    return torch.as_tensor(checks.boolean(keep))


def from_sdpa(attn_mask):
    """Return keep from a bool ``attn_mask`` of ``F.scaled_dot_product_attention``."""
    return checks.to_numpy(checks.boolean(attn_mask))


def to_torch_mha(keep, n_heads):
    """Return ``attn_mask`` for ``nn.MultiheadAttention``: bool (b * h, i, j), **True = drop**.

    ``keep`` must have all four axes (b, h or 1, i, j) or only (i, j), which stays (i, j). Raises
    ValueError for any other number of axes.
    """
    import torch
    drop = ~checks.to_numpy(checks.boolean(keep))
    if drop.ndim not in (2, 4):
        raise ValueError(f"keep must be (b, h, i, j), (b, 1, i, j) or (i, j), got {drop.shape}")
    if drop.ndim == 4:
        batch, _, n_q, n_k = drop.shape
        drop = np.broadcast_to(drop, (batch, n_heads, n_q, n_k)).reshape(-1, n_q, n_k)
    return torch.as_tensor(drop.copy())  # writable, as PyTorch wants it


def from_torch_mha(attn_mask, n_heads):
    """Return keep, (b, h, i, j) or (i, j), from a bool ``attn_mask`` of nn.MultiheadAttention."""
    keep = ~checks.to_numpy(checks.boolean(attn_mask))
    return keep.reshape(-1, n_heads, *keep.shape[-2:]) if keep.ndim == 3 else keep


def to_keras(keep, batch, n_q):
    """Return ``attention_mask`` for Keras: bool (b, i, j), True = attend, one for all heads.

    Raises ValueError when keep differs between heads, which that argument cannot say.
    """
    keep = checks.to_numpy(checks.boolean(keep))
    if keep.ndim == 4:
        if (keep != keep[:, :1]).any():
            raise ValueError(f"keep {keep.shape} differs between heads; Keras takes one for all")
        keep = keep[:, 0]
    return np.broadcast_to(keep, (batch, n_q, keep.shape[-1]))


def from_keras(attention_mask):
    """Return keep (b, 1, i, j) from a Keras ``attention_mask`` (b, i, j)."""
    return checks.to_numpy(checks.boolean(attention_mask))[:, None]
