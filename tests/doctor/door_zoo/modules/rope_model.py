from typing import Optional, Tuple

import torch
from torch import nn

from .rotary import apply_rope, build_rope_cache


class RotaryAttention(nn.Module):
    """Self-attention with rotary position embeddings."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        max_position_embeddings: int = 2048,
        rope_theta: float = 10000.0,
    ):
        super().__init__()
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        if self.head_dim % 2:
            raise ValueError("rotary embeddings need an even head size")

        self.q_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.k_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.v_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

        cos, sin = build_rope_cache(max_position_embeddings, self.head_dim, rope_theta)
        self.register_buffer("cos_cached", cos, persistent=False)
        self.register_buffer("sin_cached", sin, persistent=False)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Optional[torch.Tensor] = None,
        position_ids: Optional[torch.LongTensor] = None,
        past_key_value: Optional[Tuple[torch.Tensor, torch.Tensor]] = None,
        output_attentions: bool = False,
        use_cache: bool = False,
        **kwargs,
    ):
        bsz, q_len, _ = hidden_states.size()
        shape = (bsz, q_len, self.num_heads, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)

        past_len = past_key_value[0].shape[-2] if past_key_value is not None else 0
        if position_ids is None:
            position_ids = torch.arange(past_len, past_len + q_len,
                                        device=hidden_states.device)
            position_ids = position_ids.unsqueeze(0).expand(bsz, -1)
        cos, sin = self.cos_cached[position_ids], self.sin_cached[position_ids]
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)

        if past_key_value is not None:
            k = torch.cat([past_key_value[0], k], dim=2)
            v = torch.cat([past_key_value[1], v], dim=2)
        past_key_value = (k, v) if use_cache else None

        attn_weights = torch.matmul(q, k.transpose(2, 3)) / self.head_dim ** 0.5
        if attention_mask is not None:
            # (bsz, 1, q_len, kv_len) with large negative numbers
            attn_weights = attn_weights + attention_mask
        attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32)
        attn_weights = attn_weights.to(q.dtype)

        attn_output = torch.matmul(attn_weights, v).transpose(1, 2)
        attn_output = self.o_proj(attn_output.reshape(bsz, q_len, self.hidden_size))

        if not output_attentions:
            attn_weights = None
        return attn_output, attn_weights, past_key_value
