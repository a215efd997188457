"""Stateless building blocks. Keep this file free of nn.Module."""
from __future__ import annotations

import math
from typing import Callable, NamedTuple

import torch
from torch import Tensor
from jaxtyping import Bool, Float


class AttentionOutput(NamedTuple):
    context: Tensor
    weights: Tensor


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def stable_softmax(x: Tensor, dim: int) -> Tensor:
    x = x - x.amax(dim=dim, keepdim=True)
    e = x.exp()
    return e / e.sum(dim=dim, keepdim=True)


def scaled_dot_product(
    query: Float[Tensor, "... queries d_k"],
    key: Float[Tensor, "... keys d_k"],
    value: Float[Tensor, "... keys d_v"],
    mask: Bool[Tensor, "... queries keys"] | None = None,
) -> Float[Tensor, "... queries d_v"]:
    """mask is True where a query may look at a key."""
    logits = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(key.shape[-1])
    if mask is not None:
        logits = torch.where(mask, logits, torch.tensor(float("-inf"), dtype=logits.dtype))
    return stable_softmax(logits, dim=-1) @ value


def cross_entropy(logits: Float[Tensor, "b v"], targets: Tensor) -> Tensor:
    logits = logits - logits.amax(-1, keepdim=True)
    picked = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (logits.exp().sum(-1).log() - picked).mean()


def cosine_schedule(it: int, max_lr: float, min_lr: float, warmup: int, total: int) -> float:
    if it < warmup:
        return max_lr * it / warmup
    if it > total:
        return min_lr
    return min_lr + 0.5 * (1 + math.cos(math.pi * (it - warmup) / (total - warmup))) * (max_lr - min_lr)
