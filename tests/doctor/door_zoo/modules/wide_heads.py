import torch
from torch import nn
import torch.nn.functional as F


def hide_future_(dots):
    """Overwrites everything above the diagonal, in place."""
    rows, cols = torch.triu_indices(dots.size(-2), dots.size(-1), offset=1)
    dots[..., rows, cols] = float('-inf')


class WideHeads(nn.Module):
    def __init__(self, emb, heads=8, mask=False):
        """
        Every head is as wide as a token (emb). With mask, the future is hidden.
        """
        super().__init__()
        self.emb = emb
        self.heads = heads
        self.mask = mask

        self.tokeys = nn.Linear(emb, emb * heads, bias=False)
        self.toqueries = nn.Linear(emb, emb * heads, bias=False)
        self.tovalues = nn.Linear(emb, emb * heads, bias=False)
        self.unifyheads = nn.Linear(heads * emb, emb, bias=False)

    def forward(self, x):
        b, t, e = x.size()
        h = self.heads
        assert e == self.emb, f'expected {self.emb} features, got {e}'

        def fold(y):  # the heads go into the batch
            return y.view(b, t, h, e).transpose(1, 2).reshape(b * h, t, e)

        queries, keys = fold(self.toqueries(x)), fold(self.tokeys(x))
        values = fold(self.tovalues(x))

        # half of the scale on each side is kinder to fp16
        dot = torch.bmm(queries * e ** -0.25, (keys * e ** -0.25).mT)
        if self.mask:
            hide_future_(dot)
        weights = F.softmax(dot, dim=-1)

        out = torch.bmm(weights, values).view(b, h, t, e)
        return self.unifyheads(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, emb, heads, mask, ff_mult=4):
        super().__init__()
        self.attention = WideHeads(emb, heads=heads, mask=mask)
        self.norm1 = nn.LayerNorm(emb)
        self.norm2 = nn.LayerNorm(emb)
        self.ff = nn.Sequential(
            nn.Linear(emb, ff_mult * emb), nn.ReLU(), nn.Linear(ff_mult * emb, emb))

    def forward(self, x):
        x = self.norm1(self.attention(x) + x)
        return self.norm2(self.ff(x) + x)
