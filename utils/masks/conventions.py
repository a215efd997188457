"""Convert masks: ``to_…`` turns keep into a mask of another convention, ``from_…`` turns it back.

``keep`` is bool, True = may attend, and broadcasts to (b, h, i, j). Import these functions from
``utils.masks``. Chapter `mask_conventions` shows what each library does with its mask. Every
function raises TypeError for a mask that is not bool, unless masks of its convention are numbers.
"""

import numpy as np

from .. import checks


def to_additive(keep, dtype=np.float32):
    """Return a float array to *add* to the scores: 0 where keep is True, -inf where it is False.

    Raises TypeError for a mask that is not bool: a mask that is additive already would be inverted.
    """
    return np.where(checks.to_numpy(checks.boolean(keep)), 0.0, -np.inf).astype(dtype)


def from_additive(mask):
    """Return keep from an additive mask of 0 and -inf. Raises ValueError for any other value."""
    mask = checks.to_numpy(mask)
    if mask.dtype.kind not in "biuf" and "float" not in str(mask.dtype):
        raise TypeError(f"an additive mask contains numbers, 0 and -inf, got {mask.dtype}")
    if mask.dtype == bool:
        raise TypeError("an additive mask contains 0 (may attend) and -inf (masked), got bool: if "
                        "True means may attend, it is keep already")
    keep = mask == 0
    if not (keep | np.isneginf(mask)).all():
        raise ValueError("an additive mask contains only 0 (may attend) and -inf (masked); this "
                         "one contains other numbers, so it is a bias, not a mask")
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

    ``keep`` must have four axes (b, h or 1, i, j), or two, (i, j); then the result is (i, j), too.
    Raises ValueError for any other number of axes.
    """
    import torch
    checks.count(n_heads, "n_heads")
    drop = ~checks.to_numpy(checks.boolean(keep))
    if drop.ndim not in (2, 4):
        raise ValueError(f"keep must be (b, h, i, j), (b, 1, i, j) or (i, j), got {drop.shape}")
    if drop.ndim == 4:
        batch, _, n_q, n_k = drop.shape
        drop = np.broadcast_to(drop, (batch, n_heads, n_q, n_k)).reshape(-1, n_q, n_k)
    return torch.as_tensor(drop.copy())  # writable, as PyTorch requires


def from_torch_mha(attn_mask, n_heads):
    """Return keep, (b, h, i, j) or (i, j), from a bool ``attn_mask`` of nn.MultiheadAttention."""
    checks.count(n_heads, "n_heads")
    keep = ~checks.to_numpy(checks.boolean(attn_mask))
    return keep.reshape(-1, n_heads, *keep.shape[-2:]) if keep.ndim == 3 else keep


def to_key_padding(keep):
    """Return ``key_padding_mask`` for ``nn.MultiheadAttention``: bool (b, j), **True = drop**.

    Raises ValueError when keep differs between heads or queries: such a mask cannot express that.
    """
    import torch
    keep = _four_axes(keep)
    if (keep != keep[:, :1, :1]).any():
        raise ValueError(f"keep {keep.shape} differs between heads or queries; a key_padding_mask "
                         "(b, j) has only one row for each example")
    return torch.as_tensor(~keep[:, 0, 0])


def from_key_padding(key_padding_mask):
    """Return keep (b, 1, 1, j) from a bool ``key_padding_mask`` (b, j)."""
    return ~checks.to_numpy(checks.boolean(key_padding_mask))[:, None, None]


def to_keras(keep, batch, n_q):
    """Return ``attention_mask`` for Keras: bool (b, i, j), True = attend, the same for all heads.

    If keep differs between heads, the mask is (b, h, i, j), which Keras accepts as well.
    """
    keep = _four_axes(keep)
    if (keep == keep[:, :1]).all():
        return np.broadcast_to(keep[:, 0], (batch, n_q, keep.shape[-1]))
    return np.broadcast_to(keep, (batch, keep.shape[1], n_q, keep.shape[-1]))


def from_keras(attention_mask):
    """Return keep (b, 1 or h, i, j) from a Keras ``attention_mask``, (b, i, j) or (b, h, i, j)."""
    keep = checks.to_numpy(checks.boolean(attention_mask))
    return keep if keep.ndim == 4 else keep[:, None]


def to_onnx(keep, n_k):
    """Return ``attn_mask`` for ONNX' Attention: bool (b, h, i, j), the first three may be 1.

    Its last axis always has n_k elements: ONNX does not repeat a last axis of size 1, but masks all
    keys after the first. Source: https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    keep = _four_axes(keep)
    return np.broadcast_to(keep, (*keep.shape[:3], n_k))


def from_onnx(attn_mask, n_k):
    """Return keep with four axes from a bool ``attn_mask`` of ONNX; three axes are (h, i, j).

    If its last axis is shorter than ``n_k``, the remaining keys are masked.
    """
    keep = checks.to_numpy(checks.boolean(attn_mask))
    keep = keep.reshape((1,) * (4 - keep.ndim) + keep.shape)
    rest = np.zeros((*keep.shape[:3], n_k - keep.shape[-1]), dtype=bool)
    return np.concatenate((keep, rest), axis=-1)


def to_drop(keep):
    """Return ``mask`` for ``attention.einsum``: a bool tensor (b, i, j), **True = drop**.

    Axes of b and i may be 1. Raises ValueError when keep differs between heads.
    """
    import torch
    return torch.as_tensor(~_for_all_heads(keep))


def from_drop(mask):
    """Return keep (b, 1, i, j) from a bool mask (b, i, j) in which True = drop."""
    return ~checks.to_numpy(checks.boolean(mask))[:, None]


def to_valid_lens(keep, batch):
    """Return ``valid_lens`` for ``attention.tensorflow``: integers (b,), or (b, i) if needed.

    Raises ValueError when the unmasked keys of a row are not its first ones, or when keep differs
    between heads: a length cannot express either.
    """
    keep = _for_all_heads(keep)  # (b, i, j)
    lens = keep.sum(axis=-1)
    if (keep != (np.arange(keep.shape[-1]) < lens[..., None])).any():
        raise ValueError("valid_lens counts keys from the first one, but keep has a row with a "
                         "masked key before an unmasked one")
    lens = np.broadcast_to(lens, (batch, lens.shape[1])).astype(np.int32)
    return lens[:, 0] if lens.shape[1] == 1 else lens


def from_valid_lens(valid_lens, n_k):
    """Return keep (b, 1, 1 or i, j) from ``valid_lens``, (b,) or (b, i). Raises as ``padding``."""
    lens = checks.to_numpy(valid_lens)
    checks.lengths(lens.ravel() if lens.ndim == 2 else lens, n_k)
    return np.arange(n_k) < lens.reshape(len(lens), 1, -1, 1)


def to_sequence_first(keep):
    """Return ``mask`` for ``sequence_first``: a bool tensor (i, j, b), True = attend.

    Axes of i and b may be 1. Raises ValueError when keep differs between heads.
    """
    import torch
    return torch.as_tensor(_for_all_heads(keep).transpose(1, 2, 0))


def from_sequence_first(mask):
    """Return keep (b, 1, i, j) from a bool mask (i, j, b), True = attend."""
    return checks.to_numpy(checks.boolean(mask)).transpose(2, 0, 1)[:, None]


def _four_axes(keep):
    """Return keep as a NumPy array with four axes; missing ones are added in front, of size 1."""
    keep = checks.to_numpy(checks.boolean(keep))
    if keep.ndim > 4:
        raise ValueError(f"keep {keep.shape} must have at most four axes, (b, h, i, j)")
    if keep.ndim == 3 and len(keep) > 1:
        raise ValueError(f"keep {keep.shape} is ambiguous for (b, h, i, j): if its first axis is "
                         "the examples, pass keep[:, None]; if it is the heads, keep[None]")
    return keep.reshape((1,) * (4 - keep.ndim) + keep.shape)


def _for_all_heads(keep):
    """Return keep without its axis of heads, (b, i, j); axes of size 1 stay."""
    keep = _four_axes(keep)
    if (keep != keep[:, :1]).any():
        raise ValueError(f"keep {keep.shape} differs between heads, but this convention has one "
                         "mask for all heads")
    return keep[:, 0]
