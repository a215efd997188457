import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def swish(x):
    return x * torch.sigmoid(x)


def Normalize(channels, groups=8):
    return nn.GroupNorm(num_groups=groups, num_channels=channels, eps=1e-6, affine=True)


def time_embedding(t, dim):
    half = dim // 2
    freq = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / (half - 1))
    arg = t.float()[:, None] * freq[None]
    return torch.cat([arg.sin(), arg.cos()], dim=1)


def linear_attention(q, k, v, eps=1e-6):
    """ q, k, v: (b, heads, n, d), cost is linear in n """
    q = F.elu(q) + 1
    k = F.elu(k) + 1
    kv = torch.einsum('bhnd,bhne->bhde', k, v)
    z = 1 / (torch.einsum('bhnd,bhd->bhn', q, k.sum(dim=2)) + eps)
    return torch.einsum('bhnd,bhde,bhn->bhne', q, kv, z)


class ResnetBlock(nn.Module):

    def __init__(self, in_ch, out_ch, temb_ch, dropout):
        super().__init__()
        self.norm1, self.norm2 = Normalize(in_ch), Normalize(out_ch)
        self.conv1 = nn.Conv2d(in_ch, out_ch, 3, padding=1)
        self.temb_proj = nn.Linear(temb_ch, out_ch)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(out_ch, out_ch, 3, padding=1)
        self.skip = nn.Conv2d(in_ch, out_ch, 1) if in_ch != out_ch else nn.Identity()

    def forward(self, x, temb):
        h = self.conv1(swish(self.norm1(x)))
        h = h + self.temb_proj(swish(temb))[:, :, None, None]
        h = self.conv2(self.dropout(swish(self.norm2(h))))
        return self.skip(x) + h


class AttnBlock(nn.Module):

    def __init__(self, in_channels):
        super().__init__()
        self.norm = Normalize(in_channels)
        self.q = nn.Conv2d(in_channels, in_channels, 1)
        self.k = nn.Conv2d(in_channels, in_channels, 1)
        self.v = nn.Conv2d(in_channels, in_channels, 1)
        self.proj_out = nn.Conv2d(in_channels, in_channels, 1)

    def forward(self, x):
        h_ = self.norm(x)
        q, k, v = self.q(h_), self.k(h_), self.v(h_)
        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w).permute(0, 2, 1)   # b, hw, c
        k = k.reshape(b, c, h * w)                    # b, c, hw
        w_ = torch.bmm(q, k) * (int(c) ** (-0.5))
        w_ = F.softmax(w_, dim=2)
        v = v.reshape(b, c, h * w)
        h_ = torch.bmm(v, w_.permute(0, 2, 1))
        return x + self.proj_out(h_.reshape(b, c, h, w))
