"""Two ways to make the KV cache smaller."""
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, bias: bool = False):
        super().__init__()
        assert d_model % n_heads == 0 and n_heads % n_kv_heads == 0
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.n_rep = n_heads // n_kv_heads
        self.head_dim = d_model // n_heads
        self.q_proj = nn.Linear(d_model, n_heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(d_model, n_kv_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(d_model, n_kv_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(n_heads * self.head_dim, d_model, bias=bias)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.n_kv_heads, self.head_dim).transpose(1, 2)
        # 0 0 1 1 ...: neighbouring query heads share one key head
        k = k.repeat_interleave(self.n_rep, dim=1)
        v = v.repeat_interleave(self.n_rep, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(y.transpose(1, 2).contiguous().view(b, n, -1))


class MultiQueryAttention(nn.Module):
    """Causal; all the heads read the same keys and values."""

    def __init__(self, embed_dim: int, n_head: int, resid_pdrop: float = 0.0):
        super().__init__()
        self.embed_dim = embed_dim
        self.n_head = n_head
        self.head_dim = embed_dim // n_head
        self.c_attn = nn.Linear(embed_dim, embed_dim + 2 * self.head_dim)
        self.c_proj = nn.Linear(embed_dim, embed_dim)
        self.resid_dropout = nn.Dropout(resid_pdrop)

    def forward(
        self,
        hidden_states: Tensor,
        layer_past: Optional[Tuple[Tensor, Tensor]] = None,
        use_cache: Optional[bool] = False,
        **kwargs,
    ):
        b, n, _ = hidden_states.shape
        sizes = (self.embed_dim, self.head_dim, self.head_dim)
        q, k, v = self.c_attn(hidden_states).split(sizes, dim=-1)
        q = q.view(b, n, self.n_head, self.head_dim).transpose(1, 2)
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=1)
            v = torch.cat((layer_past[1], v), dim=1)
        present = (k, v) if use_cache else None

        total = k.size(1)
        scores = q @ k.unsqueeze(1).transpose(-1, -2) * self.head_dim ** -0.5
        row = torch.arange(total - n, total, device=q.device)[:, None]
        col = torch.arange(total, device=q.device)[None, :]
        scores = scores.masked_fill(col > row, torch.finfo(scores.dtype).min)
        out = scores.softmax(-1) @ v.unsqueeze(1)
        out = out.transpose(1, 2).reshape(b, n, self.embed_dim)
        return self.resid_dropout(self.c_proj(out)), present
