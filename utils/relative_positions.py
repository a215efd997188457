"""What relative positions add to scores before the scale. PyTorch.

Chapter ``positions`` teaches ``relative_scores`` and compares its own Transformer-XL with the rest.
"""

import torch
import torch.nn.functional as F


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
