"""Attention of our summarizer. The scale is folded into the initialisation, as in T5."""
import torch
from torch import nn


class T5LikeAttention(nn.Module):
    def __init__(self, d_model=512, d_kv=64, num_heads=8, dropout_rate=0.1,
                 has_relative_attention_bias=False, max_distance=32):
        super().__init__()
        self.d_model = d_model
        self.d_kv = d_kv
        self.n_heads = num_heads
        self.inner_dim = num_heads * d_kv
        self.dropout = dropout_rate
        self.max_distance = max_distance
        self.has_relative_attention_bias = has_relative_attention_bias

        self.q = nn.Linear(d_model, self.inner_dim, bias=False)
        self.k = nn.Linear(d_model, self.inner_dim, bias=False)
        self.v = nn.Linear(d_model, self.inner_dim, bias=False)
        self.o = nn.Linear(self.inner_dim, d_model, bias=False)
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(2 * max_distance + 1, num_heads)
        self.reset_parameters()

    def reset_parameters(self, factor=1.0):
        nn.init.normal_(self.q.weight, std=factor * (self.d_model * self.d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=factor * self.d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=factor * self.d_model ** -0.5)
        nn.init.normal_(self.o.weight, std=factor * self.inner_dim ** -0.5)

    def compute_bias(self, query_length, key_length):
        device = self.relative_attention_bias.weight.device
        offset = (torch.arange(key_length, device=device)[None, :]
                  - torch.arange(query_length, device=device)[:, None])
        offset = offset.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return self.relative_attention_bias(offset).permute(2, 0, 1).unsqueeze(0)

    def _shape(self, states):
        return states.view(states.size(0), -1, self.n_heads, self.d_kv).transpose(1, 2)

    def forward(self, hidden_states, mask=None, key_value_states=None, position_bias=None):
        memory = hidden_states if key_value_states is None else key_value_states
        q = self._shape(self.q(hidden_states))
        k = self._shape(self.k(memory))
        v = self._shape(self.v(memory))

        scores = torch.matmul(q, k.transpose(3, 2))
        if position_bias is None:
            if self.has_relative_attention_bias:
                position_bias = self.compute_bias(q.size(2), k.size(2))
            else:
                position_bias = torch.zeros((1, self.n_heads, q.size(2), k.size(2)),
                                            device=scores.device, dtype=scores.dtype)
            if mask is not None:
                position_bias = position_bias + mask  # additive mask, (b, 1, q, k)

        scores = scores + position_bias
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        weights = nn.functional.dropout(weights, p=self.dropout, training=self.training)

        out = torch.matmul(weights, v).transpose(1, 2).contiguous()
        out = self.o(out.view(out.size(0), -1, self.inner_dim))
        return out, position_bias
