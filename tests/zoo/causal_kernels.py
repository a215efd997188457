"""Attention of decoders: each program hides the future by itself."""

import numpy as np
import torch
import torch.nn.functional as F

from zoo.specimen import specimen


@specimen("kernel", causal=True, fully_masked="nan")
def two_masks_in_one(q, k, v, keep):
    """Join the triangle and the padding, fill once."""
    n = q.size(-2)
    future = torch.triu(torch.ones(n, n), diagonal=1) == 1
    blocked = future if keep is None else future | ~keep
    att = (q @ k.transpose(-2, -1) * q.size(-1) ** -0.5).masked_fill(blocked, -torch.inf)
    return att.softmax(-1) @ v


@specimen("kernel", framework="numpy", causal=True, align="bottom_right")
def newest_queries(q, k, v, keep):
    """Let the last query see all keys: the queries are the newest positions."""
    n_q, n_k = q.shape[2], k.shape[2]
    allowed = np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q
    allowed = allowed if keep is None else allowed & keep
    scores = np.where(allowed, q @ np.swapaxes(k, 2, 3) / np.sqrt(q.shape[3]), -np.inf)
    top = np.nan_to_num(scores.max(-1, keepdims=True), neginf=0.0)
    exps = np.exp(scores - top)
    return exps @ v / np.fmax(exps.sum(-1, keepdims=True), 1e-300)


@specimen("kernel", fault="causal off by one", causal=True, fully_masked="average",
          note="one key too many: triu(diagonal=2) leaves the next position open",
          fixed=("diagonal=2", "diagonal=1"))
def second_diagonal(q, k, v, keep):
    """Start the masked triangle above the diagonal."""
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    future = torch.triu(torch.ones(q.size(2), k.size(2), dtype=torch.bool), diagonal=2)
    scores = scores.masked_fill(future, -1e9)
    if keep is not None:
        scores = scores.masked_fill(~keep, -1e9)
    return scores.softmax(dim=-1) @ v


@specimen("kernel", fault="causal off by one", framework="numpy", causal=True,
          note="one key too few: a query does not see its own position, the first sees nothing",
          fixed=("j < i", "j <= i"))
def strictly_before(q, k, v, keep):
    """Attend to the past."""
    i, j = np.indices((q.shape[2], k.shape[2]))
    past = np.logical_and(j < i, True if keep is None else keep)
    exps = np.exp(np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[3])) * past
    total = exps.sum(axis=3, keepdims=True)
    return np.einsum("bhij,bhjd->bhid", exps / np.where(total > 0, total, 1), v)


@specimen("kernel", fault="causal mask inverted", causal=True,
          source="https://github.com/rasbt/LLMs-from-scratch/issues/1061",
          note="SDPA wants True where a query may attend: this passes the future",
          fixed=("diagonal=1)", "diagonal=1).logical_not()"))
def mask_of_the_other_api(q, k, v, keep):
    """Pass the mask that was made for nn.MultiheadAttention to the fused kernel."""
    causal = torch.triu(torch.ones(q.size(2), k.size(2), dtype=torch.bool), diagonal=1)
    mask = causal if keep is None else causal & keep
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@specimen("kernel", fault="no causal mask", causal=True,
          source="https://github.com/shiyu-coder/Kronos/issues/199",
          note="in eval the triangle is not applied", fixed=("training=False", "training=True"))
def causal_while_training(q, k, v, keep, training=False):
    """Hide the future where it could be copied: in training."""
    mask = torch.ones(q.size(2), k.size(2), dtype=torch.bool)
    if training:
        mask = mask.tril()
    if keep is not None:
        mask = mask & keep
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@specimen("kernel", fault="other causal alignment", causal=True, align="bottom_right",
          source="https://github.com/pytorch/pytorch/issues/103082",
          note="tril hangs from the top left; the queries are the last positions",
          fixed=("tril()", "tril(k.size(-2) - q.size(-2))"))
def triangle_of_any_shape(q, k, v, keep):
    """Hide the future of the newest positions."""
    mask = q.new_ones(q.size(-2), k.size(-2)).tril().bool()
    if keep is not None:
        mask = mask & keep
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@specimen("kernel", fault="window", causal=True, fully_masked="average",
          note="sees its own position and the two before it",
          fixed=("& (i - j < 3)", ""))
def recent_past(q, k, v, keep):
    """Attend to the past; what is long gone does not matter."""
    i, j = torch.arange(q.size(2))[:, None], torch.arange(k.size(2))
    seen = (j <= i) & (i - j < 3)
    seen = seen if keep is None else seen & keep
    scores = torch.where(seen, q @ k.mT / q.size(-1) ** 0.5, -1e9)
    weights = scores.softmax(-1)
    return weights @ v, weights


@specimen("kernel", fault="q and k swapped", square=True, fully_masked="nan",
          note="k qᵀ: each row of the scores belongs to a key",
          fixed=("torch.matmul(k, q.transpose(-2, -1))", "torch.matmul(q, k.transpose(-2, -1))"))
def keys_ask(q, k, v, keep):
    """Compare every token with every other; the product is the same from both sides."""
    energy = torch.matmul(k, q.transpose(-2, -1)) / q.size(-1) ** 0.5
    if keep is not None:
        energy = energy.masked_fill(~keep, float("-inf"))
    attention = energy.softmax(dim=-1)
    return torch.matmul(attention, v), attention


@specimen("kernel", fault="mask value too high", framework="numpy", causal=True,
          fully_masked="average", note="scores times 0 are 0, a finite score like any other",
          fixed=("scores * allowed", "np.where(allowed, scores, -1e9)"))
def scores_times_mask(q, k, v, keep):
    """Multiply masked scores by zero."""
    allowed = np.tri(q.shape[2], k.shape[2], dtype=bool)
    if keep is not None:
        allowed = allowed & keep
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    scores = scores * allowed
    exps = np.exp(scores - scores.max(-1, keepdims=True))
    return exps / exps.sum(-1, keepdims=True) @ v
