import torch
from torch import nn


def attend(q, k, v, mask=None):
    """One head. mask is True where a query may look."""
    score = q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5
    if mask is not None:
        score = score.masked_fill(~mask, float("-inf"))
    return score.softmax(dim=-1) @ v


class LoopMultiHead(nn.Module):
    def __init__(self, n_heads: int, d_model: int):
        super().__init__()
        d_head = d_model // n_heads
        self.n_heads = n_heads
        self.query = nn.ModuleList(
            nn.Linear(d_model, d_head, bias=False) for _ in range(n_heads)
        )
        self.key = nn.ModuleList(
            nn.Linear(d_model, d_head, bias=False) for _ in range(n_heads)
        )
        self.value = nn.ModuleList(
            nn.Linear(d_model, d_head, bias=False) for _ in range(n_heads)
        )
        self.output = nn.Linear(n_heads * d_head, d_model)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        heads = []
        for _ in range(self.n_heads):
            q = self.query[0](x)
            k = self.key[0](memory)
            v = self.value[0](memory)
            heads.append(attend(q, k, v, mask))
        return self.output(torch.cat(heads, dim=-1))


class AddNorm(nn.Module):
    def __init__(self, d_model: int, p: float = 0.1):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(p)

    def forward(self, x, sub):
        return self.norm(x + self.drop(sub))


def test_shapes():
    layer = LoopMultiHead(n_heads=4, d_model=32)
    x = torch.randn(3, 6, 32)
    memory = torch.randn(3, 9, 32)
    assert layer(x).shape == x.shape
    assert layer(x, memory).shape == x.shape
    assert AddNorm(32)(x, layer(x)).shape == x.shape


if __name__ == "__main__":
    test_shapes()
    print("ok")
