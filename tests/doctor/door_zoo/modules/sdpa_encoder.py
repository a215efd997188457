"""Encoder layers, ported from nn.MultiheadAttention to the fused kernel (PyTorch 2)."""
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FusedSelfAttention(nn.Module):
    """Drop-in for ``nn.MultiheadAttention(d_model, nhead, batch_first=True)``.

    Args:
        d_model: width of the model
        nhead: number of heads
        dropout: dropout on the attention weights

    Forward:
        src: (N, S, d_model)
        key_padding_mask: (N, S) bool, ``True`` at the padded positions, which are ignored
    """

    def __init__(self, d_model: int, nhead: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.nhead = nhead
        self.dropout = dropout
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, src: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tensor:
        n, s, d = src.shape
        q, k, v = self.in_proj(src).view(n, s, 3, self.nhead, -1).permute(2, 0, 3, 1, 4)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.view(n, 1, 1, s)
        out = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=key_padding_mask,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.out_proj(out.transpose(1, 2).reshape(n, s, d))


class FusedEncoderLayer(nn.Module):
    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048) -> None:
        super().__init__()
        self.self_attn = FusedSelfAttention(d_model, nhead)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, src: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tensor:
        src = src + self.self_attn(self.norm1(src), key_padding_mask)
        return src + self.linear2(F.gelu(self.linear1(self.norm2(src))))


def port_weights(old: nn.MultiheadAttention, new: FusedSelfAttention) -> None:
    with torch.no_grad():
        new.in_proj.weight.copy_(old.in_proj_weight)
        new.in_proj.bias.copy_(old.in_proj_bias)
        new.out_proj.load_state_dict(old.out_proj.state_dict())
