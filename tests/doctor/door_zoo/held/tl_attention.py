# %%
import math
from dataclasses import dataclass

import einops
import torch as t
import torch.nn as nn
from torch import Tensor

device = t.device("cuda" if t.cuda.is_available() else "cpu")


# %%
@dataclass
class Config:
    d_model: int = 768
    debug: bool = True
    layer_norm_eps: float = 1e-5
    d_vocab: int = 50257
    init_range: float = 0.02
    n_ctx: int = 1024
    d_head: int = 64
    d_mlp: int = 3072
    n_heads: int = 12
    n_layers: int = 12


# %%
class LayerNorm(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        self.w = nn.Parameter(t.ones(cfg.d_model))
        self.b = nn.Parameter(t.zeros(cfg.d_model))

    def forward(self, residual: Tensor) -> Tensor:
        mean = residual.mean(dim=-1, keepdim=True)
        std = (residual.var(dim=-1, keepdim=True, unbiased=False)
               + self.cfg.layer_norm_eps).sqrt()
        return (residual - mean) / std * self.w + self.b


# %%
class Attention(nn.Module):
    IGNORE: Tensor

    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        shape = (cfg.n_heads, cfg.d_model, cfg.d_head)
        self.W_Q = nn.Parameter(t.empty(shape))
        self.W_K = nn.Parameter(t.empty(shape))
        self.W_V = nn.Parameter(t.empty(shape))
        self.W_O = nn.Parameter(t.empty((cfg.n_heads, cfg.d_head, cfg.d_model)))
        self.b_Q = nn.Parameter(t.zeros((cfg.n_heads, cfg.d_head)))
        self.b_K = nn.Parameter(t.zeros((cfg.n_heads, cfg.d_head)))
        self.b_V = nn.Parameter(t.zeros((cfg.n_heads, cfg.d_head)))
        self.b_O = nn.Parameter(t.zeros((cfg.d_model)))
        for w in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.normal_(w, std=cfg.init_range)
        self.register_buffer("IGNORE", t.tensor(float("-inf")))

    def forward(self, normalized_resid_pre: Tensor) -> Tensor:
        x = normalized_resid_pre
        q = einops.einsum(x, self.W_Q, "b s d, n d h -> b s n h") + self.b_Q
        k = einops.einsum(x, self.W_K, "b s d, n d h -> b s n h") + self.b_K
        v = einops.einsum(x, self.W_V, "b s d, n d h -> b s n h") + self.b_V
        scores = einops.einsum(q, k, "b i n h, b j n h -> b n i j")
        scores = self.apply_causal_mask(scores / math.sqrt(self.cfg.d_head))
        pattern = scores.softmax(-1)
        z = einops.einsum(pattern, v, "b n i j, b j n h -> b i n h")
        return einops.einsum(z, self.W_O, "b i n h, n h d -> b i d") + self.b_O

    def apply_causal_mask(self, attn_scores: Tensor) -> Tensor:
        n_q, n_k = attn_scores.shape[-2:]
        above = t.triu(t.ones(n_q, n_k, device=attn_scores.device), diagonal=1).bool()
        return attn_scores.masked_fill(above, self.IGNORE)


# %%
def rand_float_test(cls, shape):
    layer = cls(Config(debug=True)).to(device)
    random_input = t.randn(shape).to(device)
    output = layer(random_input)
    print("Input shape:", random_input.shape, "Output shape:", output.shape)
    return output


if __name__ == "__main__":
    rand_float_test(Attention, [2, 4, 768])
