import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class LocalLMConfig:
    hidden_size: int = 512
    num_heads: int = 8
    num_layers: int = 8
    window: int = 4
    vocab_size: int = 256
    attn_dropout: float = 0.0


class SlidingWindowAttention(nn.Module):
    """A token attends to itself and to the window - 1 tokens before it."""

    def __init__(self, config: LocalLMConfig):
        super().__init__()
        self.config = config
        self.num_heads = config.num_heads
        self.head_dim = config.hidden_size // config.num_heads
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def local_mask(self, n, device):
        i = torch.arange(n, device=device)
        distance = i[:, None] - i[None, :]
        return (distance >= 0) & (distance < self.config.window)

    def forward(self, hidden_states):
        bsz, n, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(bsz, n, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, n, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, n, self.num_heads, self.head_dim).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~self.local_mask(n, scores.device), torch.finfo(scores.dtype).min)
        probs = F.dropout(scores.softmax(-1), p=self.config.attn_dropout, training=self.training)
        out = (probs @ v).transpose(1, 2).reshape(bsz, n, -1)
        return self.o_proj(out)


class LocalLM(nn.Module):
    def __init__(self, config: LocalLMConfig):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([SlidingWindowAttention(config) for _ in range(config.num_layers)])
        self.norms = nn.ModuleList([nn.RMSNorm(config.hidden_size) for _ in range(config.num_layers)])
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.head(x)


if __name__ == "__main__":
    model = LocalLM(LocalLMConfig(num_layers=2))
    data = torch.frombuffer(bytearray(open(__file__, "rb").read()), dtype=torch.uint8).long()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(200):
        i = torch.randint(len(data) - 129, (8,))
        batch = torch.stack([data[j:j + 129] for j in i])
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, loss.item())
