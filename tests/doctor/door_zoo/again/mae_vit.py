# --------------------------------------------------------
# Masked autoencoder on satellite images
# --------------------------------------------------------
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from util.pos_embed import get_2d_sincos_pos_embed
from timm.models.vision_transformer import PatchEmbed


class Attention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=True, attn_drop=0.1, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = attn_drop
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.head_dim ** -0.5
        attn = F.softmax(attn, dim=-1)
        attn = F.dropout(attn, p=self.attn_drop)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class Block(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, norm_layer=nn.LayerNorm):
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = Attention(dim, num_heads)
        self.norm2 = norm_layer(dim)
        hidden = int(dim * mlp_ratio)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class MaskedAutoencoderViT(nn.Module):
    def __init__(self, img_size=96, patch_size=8, in_chans=10, embed_dim=768, depth=12, num_heads=12):
        super().__init__()
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        n = self.patch_embed.num_patches
        pe = get_2d_sincos_pos_embed(embed_dim, int(n ** 0.5))
        self.pos_embed = nn.Parameter(torch.from_numpy(pe).float().unsqueeze(0), requires_grad=False)
        self.blocks = nn.ModuleList(
            [Block(embed_dim, num_heads, norm_layer=partial(nn.LayerNorm, eps=1e-6)) for _ in range(depth)]
        )

    def random_masking(self, x, mask_ratio):
        N, L, D = x.shape
        len_keep = int(L * (1 - mask_ratio))
        ids = torch.rand(N, L, device=x.device).argsort(dim=1)
        keep = ids[:, :len_keep]
        return torch.gather(x, 1, keep.unsqueeze(-1).repeat(1, 1, D)), ids

    def forward(self, imgs, mask_ratio=0.75):
        x = self.patch_embed(imgs) + self.pos_embed
        x, ids = self.random_masking(x, mask_ratio)
        for blk in self.blocks:
            x = blk(x)
        return x, ids


mae_base = partial(MaskedAutoencoderViT, embed_dim=768, depth=12, num_heads=12)
