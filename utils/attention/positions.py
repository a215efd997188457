"""Where a word stands, told to attention: added to x, added to the scores, or by turning q and k.

ALiBi is taught in chapter ``sequence_first`` (NumPy, to be *added* to scaled scores), the rest in
chapter ``positions`` (PyTorch). What else is added to scores: ``utils.attention.positions``.
"""

import numpy as np
import torch
import torch.nn.functional as F

from utils import masks


def sinusoidal(positions, e, base=10_000.0):
    """Return what is added to the words at these positions, (…, i) -> (…, i, e).

    Feature 2n holds sin(position / base^(2n / e)), feature 2n + 1 the cosine. ``positions``, dtype,
    device and errors as for ``rotary``. Source: Vaswani et al. 2017, section 3.5,
    https://arxiv.org/abs/1706.03762.
    """
    cos, sin = rotary(positions, e, base)
    return torch.stack((sin, cos), dim=-1).flatten(-2)  # sin, cos, sin, ...


def rotary(positions, d, base=10_000.0):
    """Return cos and sin of the angles by which RoPE turns, (…, i) -> (…, i, d / 2) each.

    Pair n of a word turns by position / base^(2n / d) radians. ``positions`` may be integers or
    floats, in any order, other ones for each example. Angles are taken in float64; what is returned
    has the dtype of floating-point positions, else float32, on their device. Raises ValueError when
    d is odd. Source: Su et al. 2021, https://arxiv.org/abs/2104.09864.
    """
    if d % 2:
        raise ValueError(f"{d} features do not go into pairs: d must be even")
    positions = torch.as_tensor(positions)
    dtype = positions.dtype if positions.is_floating_point() else torch.float32
    n = torch.arange(d // 2, dtype=torch.float64, device=positions.device)
    angle = positions[..., None] * base ** (-2 * n / d)  # (…, i, n), float64
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, cos, sin, interleaved=False):
    """Turn the pairs of features of x by the angles of ``rotary``, (…, i, d) -> (…, i, d).

    The pairs are features n and n + d / 2 or, ``interleaved``, 2n and 2n + 1. When cos and sin are
    narrower than d / 2, only the first 2 * cos.shape[-1] features turn. cos and sin take x's dtype
    and broadcast: (i, d / 2) or (b, 1, i, d / 2) against (b, h, i, d). Raises ValueError when
    they are wider, or do not fit x.
    """
    check_angles(x, cos, sin)
    cos, sin, half = cos.to(x), sin.to(x), cos.shape[-1]
    shape, pair = ((half, 2), -1) if interleaved else ((2, half), -2)
    a, b = x[..., :2 * half].unflatten(-1, shape).unbind(pair)
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=pair)
    return torch.cat((turned.flatten(-2), x[..., 2 * half:]), dim=-1)


def check_angles(x, cos, sin):
    """Raise ValueError unless cos and sin, (…, i, at most d / 2), broadcast to x, (…, i, d)."""
    shape, places = tuple(cos.shape), tuple(x.shape[:-1])
    if sin.shape != cos.shape:
        raise ValueError(f"cos is {shape}, sin is {tuple(sin.shape)}: they belong together")
    if 2 * shape[-1] > x.shape[-1]:
        raise ValueError(f"cos has the angles of {shape[-1]} pairs, x has {x.shape[-1]} features: "
                         "rotary(positions, d) takes the features of one head")
    if len(shape) == 3 and len(places) == 3 and shape[0] != 1:
        raise ValueError(f"cos {shape} is ambiguous against x {tuple(x.shape)}: is its first axis "
                         "the examples or the heads? pass cos[:, None] or cos[None], and sin so")
    if any(have not in (1, want) for have, want in zip(shape[-2::-1], places[::-1], strict=False)
           ) or len(shape) > len(x.shape):
        raise ValueError(f"cos {shape} does not fit x {tuple(x.shape)}: there must be an angle "
                         "for each place of x, or one for all")


def alibi_slopes(n_heads):
    """Return what each head charges for one position of distance, (h,), float64.

    For 2^k heads the geometric series 2^(-8 / n), 2^(-16 / n), …, 2^-8. Otherwise the series of the
    next smaller power of two, then every other slope of the next larger one's, beginning with its
    first. Raises ValueError for fewer than one head. Source: Press, Smith and Lewis 2022,
    https://arxiv.org/abs/2108.12409, section 3, and their program.
    """
    if n_heads < 1:
        raise ValueError(f"n_heads={n_heads}: there must be at least one head")
    power = 2 ** (int(n_heads).bit_length() - 1)  # the largest power of two <= n_heads
    slopes = 2.0 ** (-8 / power * np.arange(1, power + 1))
    between = 2.0 ** (-4 / power * np.arange(1, 2 * power, 2))
    return np.concatenate([slopes, between[:n_heads - power]])


def alibi_bias(n_heads, n_q, n_k, align=None):
    """Return the bias (h, i, j): minus the slope of the head times the distance from i to j.

    ``align`` as in ``masks.offsets``: needed, and only needed, when n_q != n_k. The paper has
    causal attention in mind; keys after the query pay for their distance like those before it.
    """
    distance = np.abs(masks.offsets(n_q, n_k, align))  # (i, j)
    return -alibi_slopes(n_heads)[:, None, None] * distance


def relative_scores(q, table, offsets):
    """Return q_i · table[clip(j − i)], Shaw's term: (…, i, d), (2 * reach + 1, d) -> (…, i, j).

    Row ``reach + o`` of ``table`` stands for the offset o; beyond ``reach`` its first and its last
    row do. ``offsets`` (i, j) holds j − i: ``masks.offsets`` or keys[None] - queries[:, None]. Add
    to q kᵀ before the scale. Raises ValueError for a table with an even number of rows.
    Source: Shaw, Uszkoreit and Vaswani 2018, https://arxiv.org/abs/1803.02155, section 3.2.
    """
    reach, even = divmod(len(table) - 1, 2)
    if even:
        raise ValueError(f"table has {len(table)} rows, not 2 * reach + 1")
    row = torch.as_tensor(offsets).clamp(-reach, reach) + reach  # (i, j)
    return torch.einsum("...id,ijd->...ij", q, table[row])


def relative_shift(x):
    """Turn scores of distances into scores of keys, (…, i, j + i − 1) -> (…, i, j).

    Column m of x is the distance n_k − 1 − m, and the last query stands at the last key: row i
    moves n_q − 1 − i to the left. Source: Dai et al. 2019, https://arxiv.org/abs/1901.02860,
    appendix B.
    """
    n_q, n_distances = x.shape[-2:]
    x = F.pad(x, (1, 0)).flatten(-2)[..., n_q:]
    return x.unflatten(-1, (n_q, n_distances))[..., :n_distances + 1 - n_q]


def transformer_xl_scores(q, k, r, u, v):
    """Return Transformer-XL's scores before the scale: (…, i, d), (…, j, d) -> (…, i, j).

    q_i · k_j + q_i · r + u · k_j + v · r, where r is the row of ``r`` (…, j + i − 1, d) for the
    distance from j to i: its first row is the distance n_k − 1, its last 1 − n_q. The last query
    stands at the last key. ``u`` and ``v`` (d,) or (h, 1, d) are learned. Source: Dai et al. 2019,
    https://arxiv.org/abs/1901.02860, section 3.3.
    """
    return (q + u) @ k.mT + relative_shift((q + v) @ r.mT)
