"""TorchScript versions of the hot loops of the protein encoder."""
import math
from typing import Optional

import torch
from torch import Tensor


@torch.jit.script
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    y = x + bias
    return 0.5 * y * (1.0 + torch.tanh(0.79788456 * y * (1.0 + 0.044715 * y * y)))


@torch.jit.script
def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor] = None, scale: Optional[float] = None
) -> Tensor:
    # q [*, H, Q, C], k [*, H, K, C], v [*, H, K, C]
    # bias is added to the logits (pair bias, or -1e9 where a residue is missing)
    factor = 1.0 / math.sqrt(float(q.size(-1)))
    if scale is not None:
        factor = scale
    a = torch.matmul(q * factor, k.transpose(-1, -2))
    if bias is not None:
        a = a + bias
    a = torch.softmax(a, dim=-1)
    return torch.matmul(a, v)


@torch.jit.script
def dropout_add(x: Tensor, residual: Tensor, p: float, training: bool) -> Tensor:
    return residual + torch.nn.functional.dropout(x, p=p, training=training)


def mask_to_bias(mask: Tensor, inf: float = 1e9) -> Tensor:
    """[*, K] with 1 for a resolved residue -> [*, 1, 1, K]"""
    return (inf * (mask - 1))[..., None, None, :]


def benchmark(n: int = 256, repeat: int = 20) -> None:
    import time
    q, k, v = torch.randn(3, 1, 8, n, 32)
    mask = torch.ones(1, n)
    for _ in range(3):
        fused_attention(q, k, v, mask_to_bias(mask))
    t = time.perf_counter()
    for _ in range(repeat):
        fused_attention(q, k, v, mask_to_bias(mask))
    print(f"{n:5d}: {(time.perf_counter() - t) / repeat * 1e3:.2f} ms")


if __name__ == "__main__":
    for n in (64, 128, 256, 512):
        benchmark(n)
