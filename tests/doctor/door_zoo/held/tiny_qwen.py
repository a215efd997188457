import torch
import torch.nn as nn
import torch.nn.functional as F

QWEN_CONFIG = {
    "vocab_size": 151936,
    "emb_dim": 256,
    "n_heads": 8,
    "n_kv_groups": 2,
    "head_dim": 32,
    "qk_norm": True,
    "rope_base": 1_000_000.0,
    "context_length": 1024,
}


class RMSNorm(nn.Module):
    def __init__(self, emb_dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(emb_dim))

    def forward(self, x):
        var = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(var + self.eps) * self.scale


def compute_rope(head_dim, base, length):
    inv = 1.0 / base ** (torch.arange(0, head_dim, 2) / head_dim)
    ang = torch.arange(length)[:, None] * inv[None, :]
    ang = torch.cat([ang, ang], dim=1)
    return ang.cos(), ang.sin()


def apply_rope(x, cos, sin):
    n = x.shape[2]
    x1, x2 = x.chunk(2, dim=-1)
    return x * cos[:n] + torch.cat((-x2, x1), dim=-1) * sin[:n]


class GroupedQueryAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.num_heads = cfg["n_heads"]
        self.num_kv_groups = cfg["n_kv_groups"]
        self.group_size = self.num_heads // self.num_kv_groups
        self.head_dim = cfg["head_dim"]
        d_in, d_out = cfg["emb_dim"], self.num_heads * self.head_dim
        d_kv = self.num_kv_groups * self.head_dim
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_in, d_kv, bias=False)
        self.W_value = nn.Linear(d_in, d_kv, bias=False)
        self.out_proj = nn.Linear(d_out, d_in, bias=False)
        self.q_norm = RMSNorm(self.head_dim) if cfg["qk_norm"] else None
        self.k_norm = RMSNorm(self.head_dim) if cfg["qk_norm"] else None
        cos, sin = compute_rope(self.head_dim, cfg["rope_base"], cfg["context_length"])
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.W_query(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.W_key(x).view(b, n, self.num_kv_groups, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, n, self.num_kv_groups, self.head_dim).transpose(1, 2)
        if self.q_norm:
            q = self.q_norm(q)
        if self.k_norm:
            k = self.k_norm(k)
        q, k = apply_rope(q, self.cos, self.sin), apply_rope(k, self.cos, self.sin)
        # as many heads of k and v as of q
        k = k.repeat(1, self.group_size, 1, 1)
        v = v.repeat(1, self.group_size, 1, 1)
        scores = q @ k.transpose(2, 3) / self.head_dim ** 0.5
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).reshape(b, n, -1)
        return self.out_proj(context)


class FeedForward(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.fc1 = nn.Linear(cfg["emb_dim"], 3 * cfg["emb_dim"], bias=False)
        self.fc2 = nn.Linear(cfg["emb_dim"], 3 * cfg["emb_dim"], bias=False)
        self.fc3 = nn.Linear(3 * cfg["emb_dim"], cfg["emb_dim"], bias=False)

    def forward(self, x):
        return self.fc3(F.silu(self.fc1(x)) * self.fc2(x))
