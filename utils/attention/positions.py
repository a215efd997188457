"""Positional information: vectors to add to x, terms to add to scores, and rotations of q and k.

Chapter `sequence_first` teaches ALiBi (NumPy, *added* to scaled scores), chapter `positions` the
other functions (PyTorch).
"""

import numpy as np
import torch
import torch.nn.functional as F

from .. import checks, masks


def sinusoidal(positions, e, base=10_000.0):
    """Return the vectors to add at these positions, (…, i) -> (…, i, e).

    Dimension 2n is sin(position / base^(2n / e)), dimension 2n + 1 the cosine. ``positions``,
    dtype, device and errors as for ``rotary``. Source: Vaswani et al. 2017, section 3.5,
    https://arxiv.org/abs/1706.03762.
    """
    cos, sin = rotary(positions, e, base)
    return torch.stack((sin, cos), dim=-1).flatten(-2)  # sin, cos, sin, ...


def rotary(positions, d, base=10_000.0):
    """Return cos and sin of RoPE's angles, (…, i) -> (…, i, d / 2) each.

    Pair n of a token is rotated by position / base^(2n / d) radians. ``positions`` may be integers
    or floats, in any order, and differ between examples. Angles are computed in float64. The
    results have the dtype of ``positions`` if that is floating-point, else float32, and are on the
    device of ``positions``. Raises ValueError when d is odd. Source: Su et al. 2021,
    https://arxiv.org/abs/2104.09864.
    """
    checks.angles(d, base)
    positions = torch.as_tensor(positions)
    dtype = positions.dtype if positions.is_floating_point() else torch.float32
    n = torch.arange(d // 2, dtype=torch.float64, device=positions.device)
    angle = positions[..., None] * base ** (-2 * n / d)  # (…, i, n), float64
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, cos, sin, interleaved=False):
    """Rotate pairs of dimensions of x by ``rotary``'s angles, (…, i, d).

    The pairs are dimensions n and n + d / 2 or, if ``interleaved``, 2n and 2n + 1. If cos and sin
    have fewer than d / 2 angles, only the first 2 * cos.shape[-1] dimensions are rotated. cos and
    sin are cast to the dtype of x and broadcast: (i, d / 2) or (b, 1, i, d / 2) for (b, h, i, d).
    Raises ValueError when they have more than d / 2 angles, or do not fit x.
    """
    check_angles(x, cos, sin)
    cos, sin, half = cos.to(x), sin.to(x), cos.shape[-1]
    shape, pair = ((half, 2), -1) if interleaved else ((2, half), -2)
    a, b = x[..., :2 * half].unflatten(-1, shape).unbind(pair)
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=pair)
    return torch.cat((turned.flatten(-2), x[..., 2 * half:]), dim=-1)


def check_angles(x, cos, sin):
    """Raise ValueError unless cos and sin, (…, i, at most d / 2), broadcast to x, (…, i, d)."""
    shape, axes = tuple(cos.shape), tuple(np.shape(x)[:-1])
    checks.array(x, "x", 2)
    if sin.shape != cos.shape:
        raise ValueError(f"cos and sin must have one shape, got {shape} and {tuple(sin.shape)}")
    if 2 * shape[-1] > x.shape[-1]:
        raise ValueError(f"cos has {shape[-1]} angles, but x has {x.shape[-1]} dimensions, that is "
                         f"{x.shape[-1] // 2} pairs: call rotary(positions, d) with d = d_head")
    if len(shape) == 3 and len(axes) == 3 and shape[0] != 1:
        raise ValueError(f"cos {shape} is ambiguous for x {tuple(x.shape)}: if its first axis is "
                         "the examples, pass cos[:, None]; if it is the heads, cos[None]; likewise "
                         "sin")
    fits = all(have in (1, want) for have, want in zip(shape[-2::-1], axes[::-1], strict=False))
    if not fits or len(shape) > len(x.shape):
        raise ValueError(f"cos {shape} does not broadcast to x {tuple(x.shape)}: all axes of cos "
                         "but the last must be those of x, or 1")


def alibi_slopes(n_heads):
    """Return the slope of each head in ALiBi, (h,), float64.

    For n = 2^k heads, the slopes are 2^(-8 / n), 2^(-16 / n), …, 2^-8. For another number, the
    slopes of the next smaller power of two come first, then every other slope of the next larger
    one, starting with its first. Raises ValueError for fewer than one head. Source: Press, Smith
    and Lewis 2021, https://arxiv.org/abs/2108.12409, section 3, and their program.
    """
    checks.count(n_heads, "n_heads")
    power = 2 ** (int(n_heads).bit_length() - 1)  # the largest power of two <= n_heads
    slopes = 2.0 ** (-8 / power * np.arange(1, power + 1))
    between = 2.0 ** (-4 / power * np.arange(1, 2 * power, 2))
    return np.concatenate([slopes, between[:n_heads - power]])


def alibi_bias(n_heads, n_q, n_k, align=None):
    """Return the bias (h, i, j) = -slope of head h * distance of i and j.

    ``align`` as in ``masks.offsets``; it is required only when n_q != n_k. The paper treats causal
    attention; here the bias of keys after the query depends on distance in the same way.
    """
    distance = np.abs(masks.offsets(n_q, n_k, align))  # (i, j)
    return -alibi_slopes(n_heads)[:, None, None] * distance


def relative_scores(q, table, offsets):
    """Return q_i · table[clip(j − i)], Shaw's term, (…, i, j).

    q is (…, i, d) and ``table`` (2 * reach + 1, d). Row ``reach + o`` of ``table`` belongs to the
    offset o; offsets beyond ``reach`` use the first or the last row. ``offsets`` (i, j) is j − i,
    from ``masks.offsets`` or keys[None] - queries[:, None]. Add the result to q kᵀ before scaling.
    Raises ValueError for a table with an even number of rows.
    Source: Shaw, Uszkoreit and Vaswani 2018, https://arxiv.org/abs/1803.02155, section 3.2.
    """
    reach, even = divmod(len(table) - 1, 2)
    if even:
        raise ValueError(f"table must have an odd number of rows, 2 * reach + 1, got {len(table)}")
    row = torch.as_tensor(offsets).clamp(-reach, reach) + reach  # (i, j)
    return torch.einsum("...id,ijd->...ij", q, table[row])


def relative_shift(x):
    """Convert scores by distance into scores by key, (…, i, j + i − 1) -> (…, i, j).

    Column m of x belongs to the distance n_k − 1 − m, and the last query has the position of the
    last key, so row i is shifted to the left by n_q − 1 − i. Source: Dai et al. 2019,
    https://arxiv.org/abs/1901.02860, appendix B.
    """
    n_q, n_distances = x.shape[-2:]
    x = F.pad(x, (1, 0)).flatten(-2)[..., n_q:]
    return x.unflatten(-1, (n_q, n_distances))[..., :n_distances + 1 - n_q]


def transformer_xl_scores(q, k, r, u, v):
    """Return Transformer-XL's scores before the scale: (…, i, d), (…, j, d) -> (…, i, j).

    q_i · k_j + q_i · r + u · k_j + v · r, where r is the row of ``r`` (…, j + i − 1, d) for the
    distance from j to i: its first row is for distance n_k − 1, its last for 1 − n_q. The last
    query has the position of the last key. ``u`` and ``v``, (d,) or (h, 1, d), are learned. Source:
    Dai et al. 2019, https://arxiv.org/abs/1901.02860, section 3.3.
    """
    return (q + u) @ k.mT + relative_shift((q + v) @ r.mT)
