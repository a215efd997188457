import torch
from torch import nn
from einops import rearrange, repeat
from einops.layers.torch import Rearrange


def pair(t):
    return t if isinstance(t, tuple) else (t, t)


class FeedForward(nn.Sequential):

    def __init__(self, dim, hidden, dropout=0.):
        super().__init__(
            nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(hidden, dim), nn.Dropout(dropout))


class Attention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64, dropout=0.):
        super().__init__()
        inner = dim_head * heads
        self.heads = heads
        self.scale = dim_head ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.attend = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(dropout))
        self.to_qkv = nn.Linear(dim, inner * 3, bias=False)
        one_head = heads == 1 and dim_head == dim
        self.to_out = nn.Identity() if one_head else nn.Sequential(
            nn.Linear(inner, dim), nn.Dropout(dropout))

    def forward(self, x):
        q, k, v = rearrange(self.to_qkv(self.norm(x)), 'b n (t h d) -> t b h n d',
                            t=3, h=self.heads)
        attn = self.attend(torch.einsum('bhid,bhjd->bhij', q * self.scale, k))
        out = rearrange(attn @ v, 'b h n d -> b n (h d)')
        return self.to_out(out)


class Transformer(nn.Module):
    def __init__(self, dim, depth, heads, dim_head, mlp_dim, dropout=0.):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList([Attention(dim, heads, dim_head, dropout),
                           FeedForward(dim, mlp_dim, dropout)])
            for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.norm(x)


class ViT(nn.Module):
    def __init__(self, *, image_size, patch_size, num_classes, dim, depth, heads, mlp_dim,
                 channels=3, dim_head=64):
        super().__init__()
        ih, iw = pair(image_size)
        ph, pw = pair(patch_size)
        n = (ih // ph) * (iw // pw)
        self.to_patch = nn.Sequential(
            Rearrange('b c (h p1) (w p2) -> b (h w) (p1 p2 c)', p1=ph, p2=pw),
            nn.Linear(channels * ph * pw, dim))
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim))
        self.transformer = Transformer(dim, depth, heads, dim_head, mlp_dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, img):
        x = self.to_patch(img)
        x = torch.cat([repeat(self.cls, '1 1 d -> b 1 d', b=len(x)), x], dim=1)
        return self.head(self.transformer(x + self.pos)[:, 0])
