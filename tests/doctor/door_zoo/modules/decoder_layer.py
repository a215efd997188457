import math
from typing import Optional

import torch
from torch import Tensor, nn

from masks import padding_mask


class MemoryAttention(nn.Module):
    """Lets the decoder states look at the encoder output.

    Masks follow torch.nn.Transformer: True means "do not look here".
    """

    def __init__(self, d_model: int, nhead: int, dropout: float = 0.1, bias: bool = True):
        super().__init__()
        if d_model % nhead:
            raise ValueError("d_model must be a multiple of nhead")
        self.nhead = nhead
        self.head_dim = d_model // nhead
        self.q_proj = nn.Linear(d_model, d_model, bias=bias)
        self.kv_proj = nn.Linear(d_model, 2 * d_model, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        memory_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None,
    ) -> Tensor:
        batch, tgt_len, d_model = tgt.shape
        src_len = memory.size(1)

        q = self.q_proj(tgt).view(batch, tgt_len, self.nhead, self.head_dim)
        k, v = self.kv_proj(memory).chunk(2, dim=-1)
        k = k.view(batch, src_len, self.nhead, self.head_dim)
        v = v.view(batch, src_len, self.nhead, self.head_dim)

        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(self.head_dim)
        if memory_mask is not None:
            scores = scores.masked_fill(memory_mask, float("-inf"))
        if memory_key_padding_mask is not None:
            hide = memory_key_padding_mask[:, None, None, :]
            scores = scores.masked_fill(hide, float("-inf"))

        weights = self.dropout(scores.softmax(dim=-1))
        context = torch.einsum("bhts,bshd->bthd", weights, v)
        return self.out_proj(context.reshape(batch, tgt_len, d_model))


def demo() -> None:
    lengths = [7, 4]
    memory = torch.randn(2, 7, 64)
    tgt = torch.randn(2, 3, 64)
    layer = MemoryAttention(64, 4)
    y = layer(tgt, memory, memory_key_padding_mask=padding_mask(lengths))
    print(y.shape)


if __name__ == "__main__":
    demo()
