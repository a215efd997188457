"""Multi-head attention and a block cut between the heads, on PyTorch's DTensor.

The exchange is PyTorch's: ``parallelize_module(block, mesh, plan())``. Taught in `many_machines`.
Source: Megatron-LM, https://arxiv.org/abs/1909.08053, section 3.
"""

from torch import nn
from torch.distributed.tensor import Replicate, parallel

from utils import checks
from utils.attention.heads import merge_heads
from utils.attention.torch import fused_attention


class SeparateAttention(nn.Module):
    """Multi-head self-attention whose projections can be cut, (b, i, e) -> (b, i, e).

    It counts the heads by their size, so where a rank's W_q, W_k and W_v give fewer features it
    works on fewer heads. Raises ValueError when n_heads does not divide d_model.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_head = checks.divisible(d_model, n_heads)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(d_model, d_model) for _ in range(4))

    def heads(self, side):
        """Cut features into as many heads as there are, (b, i, h * d) -> (b, h, i, d)."""
        return side.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def forward(self, x, keep=None, causal=False):
        """Return out; ``keep`` bool, True = may attend, broadcasts to (b, h, i, j)."""
        q, k, v = (self.heads(W(x)) for W in (self.W_q, self.W_k, self.W_v))
        context = fused_attention(q, k, v, keep, causal)  # (b, h, i, d)
        return self.W_o(merge_heads(context))


def plan(joined=True):
    """Return which layer of an ``EncoderLayer`` with SeparateAttention is cut, and which way.

    Columns hold the heads (or the hidden features), rows of the layer after them take the same
    ones, and its outputs are summed. ``joined``: q, k and v read one x, so that the three
    gradients of it are added before they are exchanged, not after.
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
