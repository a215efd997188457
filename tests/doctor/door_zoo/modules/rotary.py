import torch


def build_rope_cache(length, dim, base=10000.0, device=None):
    inv_freq = 1.0 / base ** (torch.arange(0, dim, 2, device=device).float() / dim)
    angles = torch.outer(torch.arange(length, device=device).float(), inv_freq)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def apply_rope(x, cos, sin):
    """x: (b, h, n, d); cos and sin: (b, n, d)."""
    return x * cos.unsqueeze(1) + rotate_half(x) * sin.unsqueeze(1)
