from __future__ import annotations

from typing import Optional

import einops
import torch
import torch.nn as nn
import torch.nn.functional as F

import lightning.pytorch as pl
from omegaconf import DictConfig


def fourier_features(pos: torch.Tensor, num_bands: int, max_res: int) -> torch.Tensor:
    bands = torch.linspace(1.0, max_res / 2, num_bands)
    x = pos.unsqueeze(-1) * bands * torch.pi
    return torch.cat([x.sin(), x.cos(), pos.unsqueeze(-1)], dim=-1).flatten(-2)


class PerceiverAttention(nn.Module):
    """Latents (b n d) read from an input array (b m c)."""

    def __init__(self, latent_dim: int, input_dim: int, num_heads: int = 8, head_dim: int = 64):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_dim
        inner = num_heads * head_dim
        self.norm_latents = nn.LayerNorm(latent_dim)
        self.norm_inputs = nn.LayerNorm(input_dim)
        self.q_proj = nn.Linear(latent_dim, inner, bias=False)
        self.kv_proj = nn.Linear(input_dim, 2 * inner, bias=False)
        self.o_proj = nn.Linear(inner, latent_dim)

    def forward(
        self, latents: torch.Tensor, inputs: torch.Tensor, pad_mask: Optional[torch.Tensor] = None
    ) -> torch.Tensor:
        # pad_mask (b m): True where the input is padding
        q = self.q_proj(self.norm_latents(latents))
        k, v = self.kv_proj(self.norm_inputs(inputs)).chunk(2, dim=-1)
        q, k, v = (einops.rearrange(t, "b n (h d) -> b h n d", h=self.num_heads) for t in (q, k, v))

        logits = torch.einsum("bhnd,bhmd->bhnm", q, k) / self.head_dim ** 0.5
        if pad_mask is not None:
            logits = logits.masked_fill(einops.rearrange(pad_mask, "b m -> b 1 1 m"), float("-inf"))
        probs = logits.softmax(dim=-1)
        out = einops.rearrange(torch.einsum("bhnm,bhmd->bhnd", probs, v), "b h n d -> b n (h d)")
        return self.o_proj(out)


class PerceiverModule(pl.LightningModule):
    def __init__(self, cfg: DictConfig):
        super().__init__()
        self.save_hyperparameters()
        self.latents = nn.Parameter(torch.randn(cfg.num_latents, cfg.latent_dim) * 0.02)
        self.cross = PerceiverAttention(cfg.latent_dim, cfg.input_dim, cfg.heads, cfg.head_dim)
        self.head = nn.Linear(cfg.latent_dim, cfg.num_classes)

    def training_step(self, batch, batch_idx):
        x, pad, y = batch
        z = self.latents.expand(x.size(0), -1, -1)
        z = z + self.cross(z, x, pad)
        loss = F.cross_entropy(self.head(z.mean(1)), y)
        self.log("train/loss", loss)
        return loss
