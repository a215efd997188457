import math
from typing import List, Optional

import torch
import torch.nn.functional as F

__all__ = ["cosine_attention", "alibi_attention", "get_slopes"]

MAX_LOGIT_SCALE = math.log(1.0 / 0.01)


def cosine_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                     logit_scale: Optional[torch.Tensor] = None,
                     bias: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Attention by cosine similarity with a (learned) temperature, as in Swin V2.

    Args:
        q, k, v: windows, (num_windows * b, heads, n, head_dim)
        logit_scale: log of the temperature, (heads, 1, 1); log(10) if none
        bias: relative position bias, (heads, n, n)
    """
    if logit_scale is None:
        logit_scale = q.new_full((q.shape[1], 1, 1), math.log(10.0))
    attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    attn = attn * torch.clamp(logit_scale, max=MAX_LOGIT_SCALE).exp()
    if bias is not None:
        attn = attn + bias.unsqueeze(0)
    return attn.softmax(dim=-1) @ v


def get_slopes(n: int) -> List[float]:
    def power_of_2(m: int) -> List[float]:
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]

    if math.log2(n).is_integer():
        return power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_2(closest) + get_slopes(2 * closest)[0::2][:n - closest]


def alibi_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention with linear biases; q, k, v are (b, heads, n, head_dim)."""
    n = q.size(-2)
    pos = torch.arange(n, device=q.device)
    distance = pos[:, None] - pos[None, :]
    slopes = torch.tensor(get_slopes(q.size(1)), device=q.device, dtype=q.dtype)
    bias = -slopes.view(-1, 1, 1) * distance.clamp(min=0)
    bias = bias.masked_fill(distance < 0, float("-inf"))
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
    return torch.matmul(F.softmax(scores + bias, dim=-1), v)


def window_partition(x: torch.Tensor, size: int) -> torch.Tensor:
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)
