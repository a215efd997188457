"""Tensor parallelism: multi-head attention and a block, split by heads, on PyTorch's DTensor.

``parallelize_module(block, mesh, plan())`` adds the collectives. Taught in `many_machines`.
Source: Megatron-LM, https://arxiv.org/abs/1909.08053, section 3.
"""

from torch import nn
from torch.distributed.tensor import Replicate, parallel

from .. import checks
from ..attention.heads import merge_heads
from ..attention.torch import fused_attention


class SeparateAttention(nn.Module):
    """Multi-head self-attention that can be split by heads, (b, i, e).

    It computes the number of heads from d_head, so a rank whose W_q, W_k and W_v return fewer
    dimensions has fewer heads. Raises ValueError when n_heads does not divide d_model.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_head = checks.divisible(d_model, n_heads)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(d_model, d_model) for _ in range(4))

    def heads(self, side):
        """Split the last axis into heads, (b, i, h * d) -> (b, h, i, d)."""
        return side.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def forward(self, x, keep=None, causal=False):
        """Return out; ``keep`` and ``causal`` as in ``fused_attention``."""
        q, k, v = (self.heads(W(x)) for W in (self.W_q, self.W_k, self.W_v))
        context = fused_attention(q, k, v, keep, causal)  # (b, h, i, d)
        return self.W_o(merge_heads(context))


def plan(joined=True):
    """Return how to split an ``EncoderLayer`` with SeparateAttention.

    The result maps the path of each layer to its ParallelStyle. Layers split by columns return part
    of the heads (or hidden dimensions); layers split by rows take them, and an all-reduce sums
    their outputs. If ``joined``, q, k and v share one x, so its three gradients are added before
    the all-reduce, not after it.
    """
    columns = "W_q", "W_k", "W_v", "up"
    parts = {name: f"self_attention.{name}" for name in ("W_q", "W_k", "W_v", "W_o")}
    parts |= {name: f"feed_forward.{name}" for name in ("up", "down")}
    cut = {path: parallel.ColwiseParallel() if name in columns else parallel.RowwiseParallel()
           for name, path in parts.items()}
    if joined:
        cut["self_attention"] = parallel.PrepareModuleInput(
            input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
    return cut
