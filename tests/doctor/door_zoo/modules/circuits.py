"""Attention-only toy models, with one weight tensor per head for easy surgery."""
import torch as t
from torch import nn

cfg = {
    "d_model": 48,
    "n_heads": 6,
    "d_head": 8,
    "n_ctx": 64,
    "init_range": 0.02,
}


class HookedAttention(nn.Module):
    IGNORE: t.Tensor

    def __init__(self, cfg: dict):
        super().__init__()
        self.cfg = cfg
        n, d, h = cfg["n_heads"], cfg["d_model"], cfg["d_head"]

        self.W_Q = nn.Parameter(t.empty(n, d, h))
        self.W_K = nn.Parameter(t.empty(n, d, h))
        self.W_V = nn.Parameter(t.empty(n, d, h))
        self.W_O = nn.Parameter(t.empty(n, h, d))
        for w in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.normal_(w, std=cfg.get("init_range", 0.02))

        self.b_Q = nn.Parameter(t.zeros(n, h))
        self.b_K = nn.Parameter(t.zeros(n, h))
        self.b_V = nn.Parameter(t.zeros(n, h))
        self.b_O = nn.Parameter(t.zeros(d))
        self.register_buffer("IGNORE", t.tensor(-1e5))

    def apply_causal_mask(self, scores):
        q_len, k_len = scores.shape[-2:]
        later = t.ones(q_len, k_len, device=scores.device, dtype=t.bool).triu(diagonal=1)
        return scores.masked_fill(later, self.IGNORE)

    def forward(self, resid_pre):
        # resid_pre: [batch, pos, d_model]
        q = t.einsum("bpm,nmh->bpnh", resid_pre, self.W_Q) + self.b_Q
        k = t.einsum("bpm,nmh->bpnh", resid_pre, self.W_K) + self.b_K
        v = t.einsum("bpm,nmh->bpnh", resid_pre, self.W_V) + self.b_V

        scores = t.einsum("bqnh,bknh->bnqk", q, k) / self.cfg["d_head"] ** 0.5
        pattern = self.apply_causal_mask(scores).softmax(dim=-1)

        z = t.einsum("bnqk,bknh->bqnh", pattern, v)
        return t.einsum("bqnh,nhm->bqm", z, self.W_O) + self.b_O


def ov_circuit(attn, head):
    """The full (d_model, d_model) map that a head writes with."""
    return attn.W_V[head] @ attn.W_O[head]


def qk_circuit(attn, head):
    return attn.W_Q[head] @ attn.W_K[head].T


if __name__ == "__main__":
    attn = HookedAttention(cfg)
    out = attn(t.randn(2, 10, cfg["d_model"]))
    print(out.shape, ov_circuit(attn, 0).shape)
