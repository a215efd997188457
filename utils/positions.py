"""Where a word stands, told to attention. NumPy arrays, to be *added* to scaled scores.

ALiBi is taught in chapter `sequence_first`.
"""

import numpy as np

from utils import masks


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
