"""Attention kernels by name, so that a config file can pick one."""
from functools import partial

import torch

softmax = partial(torch.softmax, dim=-1)


def _attend(q, k, v, mask=None, causal=False, scale=None):
    if scale is None:
        scale = q.shape[-1] ** -0.5
    logits = torch.einsum("...qd,...kd->...qk", q, k) * scale
    if causal:
        n_q, n_k = logits.shape[-2:]
        q_pos = torch.arange(n_q, device=q.device).view(-1, 1)
        k_pos = torch.arange(n_k, device=q.device).view(1, -1)
        logits = logits.masked_fill(k_pos > q_pos, float("-inf"))
    if mask is not None:
        logits = logits.masked_fill(mask == False, float("-inf"))  # noqa: E712
    return torch.einsum("...qk,...kd->...qd", softmax(logits), v)


full_attention = lambda q, k, v: softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5) @ v  # noqa
causal_attention = partial(_attend, causal=True)

KERNELS = {
    "full": full_attention,
    "causal": causal_attention,
}


def get_kernel(name):
    try:
        return KERNELS[name]
    except KeyError:
        raise ValueError(f"no kernel {name!r}, only {sorted(KERNELS)}") from None


if __name__ == "__main__":
    q, k, v = torch.randn(3, 2, 4, 9, 16)
    for name in KERNELS:
        print(name, get_kernel(name)(q, k, v).norm().item())
