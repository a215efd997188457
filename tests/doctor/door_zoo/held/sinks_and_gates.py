"""Two cures for attention sinks: a learned logit, and a gate on the output."""
import math

import torch
from torch import nn


def sdpa(Q, K, V, S, sm_scale):
    # Q, K, V: (batch, heads, tokens, head_dim); S: (heads,)
    n_tokens = Q.shape[2]
    QK = torch.einsum("bhqd,bhkd->bhqk", Q, K) * sm_scale
    mask = torch.triu(Q.new_full((n_tokens, n_tokens), -float("inf")), diagonal=1)
    QK = QK + mask
    S = S[None, :, None, None].expand(QK.shape[0], -1, n_tokens, 1)
    W = torch.softmax(torch.cat([QK, S], dim=-1), dim=-1)[..., :-1]
    return torch.einsum("bhqk,bhkd->bqhd", W, V).flatten(2)


class SinkAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads, head_dim=None):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.head_dim = head_dim or hidden_size // num_attention_heads
        inner = self.num_attention_heads * self.head_dim
        self.sinks = nn.Parameter(torch.empty(num_attention_heads))
        self.qkv = nn.Linear(hidden_size, 3 * inner)
        self.out = nn.Linear(inner, hidden_size)
        self.sm_scale = 1 / math.sqrt(self.head_dim)
        nn.init.normal_(self.sinks, std=0.5)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        split = (-1, self.num_attention_heads, self.head_dim)
        q, k, v = (t.unflatten(-1, split[1:]).transpose(1, 2) for t in (q, k, v))
        return self.out(sdpa(q, k, v, self.sinks, self.sm_scale))


def init_params(d, n_heads, generator=None):
    def mat(*shape):
        return torch.randn(*shape, generator=generator) * shape[0] ** -0.5
    return {"wq": mat(d, d), "wk": mat(d, d), "wv": mat(d, d), "wg": mat(d, d),
            "bg": torch.zeros(d), "wo": mat(d, d)}


def gated_attention(x, params, n_heads):
    """Causal attention whose heads are gated by a sigmoid of the input."""
    b, n, d = x.shape

    def heads(y):
        return y.view(b, n, n_heads, d // n_heads).permute(0, 2, 1, 3)

    q = heads(x @ params["wq"])
    k = heads(x @ params["wk"])
    v = heads(x @ params["wv"])
    sim = q @ k.mT / (d // n_heads) ** 0.5
    keep = torch.ones(n, n, device=x.device).tril().bool()
    att = sim.masked_fill(~keep, float("-inf")).softmax(-1)
    out = (att @ v).permute(0, 2, 1, 3).reshape(b, n, d)
    gate = torch.sigmoid(x @ params["wg"] + params["bg"])
    return (out * gate) @ params["wo"]


if __name__ == "__main__":
    x = torch.randn(2, 7, 32)
    print(SinkAttention(32, 4)(x).shape)
    print(gated_attention(x, init_params(32, 4), 4).shape)
