"""Sparse attention: an indexer chooses few keys for each query (PyTorch).

The choice is ``keep``, bool, True = may attend, for any program of the one equation. The scores of
the indexer are those of DeepSeek-V3.2, as transformers 5.23.0 computes them (there, the scale is
in w): https://github.com/huggingface/transformers/tree/v5.23.0/src/transformers/models/deepseek_v32
Taught in chapter `sparse_attention`.
"""

import math

import torch
import torch.nn.functional as F

from ..checks import sparse as sparse_checks


def index_scores(q, k, w):
    """Return sum_h w * relu(q k), (…, i, j).

    q is (…, h, i, d), k (…, j, d), with one head, and w (…, h, i). Raises ValueError or TypeError
    for inputs that do not fit together.
    """
    sparse_checks.indexer(q, k, w)
    hits = F.relu(q @ k[..., None, :, :].mT)  # (…, h, i, j)
    return torch.einsum("...hi,...hij->...ij", w, hits)


def top_keys(scores, keep, n):
    """Return the n allowed keys with the highest scores, (…, i, j), bool.

    ``keep`` (bool, True = may attend) has the shape of ``scores``. A query with at most n allowed
    keys gets all of them. Raises ValueError or TypeError for other shapes, or n below 1.
    """
    sparse_checks.choice(scores, keep, n)
    allowed = scores.masked_fill(~keep, -math.inf)
    best = allowed.topk(min(n, scores.shape[-1]), dim=-1).indices
    # with too few allowed keys, masked ones are among the best
    return torch.zeros_like(keep).scatter(-1, best, True) & keep


def index_loss(scores, weights, keep):
    """Return KL(attention weights || softmax of the indexer), in nats.

    ``scores`` and ``keep`` are (b, i, j), ``weights`` is (b, h, i, j). The weights are summed over
    the heads, and get no gradient. Each query must have an allowed key. Raises as ``top_keys``.
    """
    sparse_checks.choice(scores, keep, 1)
    target = weights.detach().mean(dim=-3)  # (b, i, j)
    logs = scores.masked_fill(~keep, -math.inf).log_softmax(dim=-1)
    logs = logs.masked_fill(~keep, 0.0)     # not 0 * -inf
    return (torch.xlogy(target, target) - target * logs).sum(dim=-1).mean()
