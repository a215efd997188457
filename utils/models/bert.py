"""BERT, an encoder built on our attention. Taught in chapter `pretrained_encoder`.

Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805. Default sizes are those of
all-MiniLM-L6-v2, whose parameters ``utils.models.pretrained`` loads.
"""

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.torch import MultiHeadAttention


class Block(nn.Module):
    """One layer of BERT; LayerNorm comes *after* each sum."""

    def __init__(self, d_model, n_heads, d_hidden):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.wide = nn.Linear(d_model, d_hidden)
        self.narrow = nn.Linear(d_hidden, d_model)
        self.norm_1 = nn.LayerNorm(d_model, eps=1e-12)
        self.norm_2 = nn.LayerNorm(d_model, eps=1e-12)

    def forward(self, x, keep):
        """Return (x, weights), (b, i, e) and (b, h, i, j)."""
        out, weights = self.attention(x, keep=keep, return_weights=True)
        x = self.norm_1(x + out)
        out = self.narrow(F.gelu(self.wide(x)))
        return self.norm_2(x + out), weights


class Encoder(nn.Module):
    """BERT for one sentence per example, without dropout."""

    def __init__(self, vocabulary=30522, longest=512, d_model=384, n_heads=12, d_hidden=1536,
                 n_layers=6):
        super().__init__()
        self.words = nn.Embedding(vocabulary, d_model)
        self.places = nn.Embedding(longest, d_model)
        self.kinds = nn.Embedding(2, d_model)
        self.norm = nn.LayerNorm(d_model, eps=1e-12)
        self.blocks = nn.ModuleList(
            Block(d_model, n_heads, d_hidden) for _ in range(n_layers))

    def forward(self, ids, real):
        """Return (hidden, weights) of all layers.

        hidden is (b, layer + 1, i, e): hidden[:, 0] is the input of the first block, hidden[:, n]
        the output of block n - 1. weights are (b, layer, h, i, j). ``ids`` are (b, i) int64,
        ``real`` is (b, i) bool, False at padding.
        """
        x = self.words(ids) + self.places.weight[:ids.shape[1]]
        hidden, maps = [self.norm(x + self.kinds.weight[0])], []
        for block in self.blocks:
            x, weights = block(hidden[-1], real[:, None, None])
            hidden.append(x)
            maps.append(weights)
        return torch.stack(hidden, dim=1), torch.stack(maps, dim=1)


TABLES = {"words": "word", "places": "position", "kinds": "token_type"}
NAMES = {"attention.output.dense": "attention.W_o",
         "attention.output.LayerNorm": "norm_1", "intermediate.dense": "wide",
         "output.dense": "narrow", "output.LayerNorm": "norm_2"}


def renamed(file):
    """Return the state dict of ``Encoder`` from tensors by BERT's names."""
    params = {f"{ours}.weight": file[f"embeddings.{theirs}_embeddings.weight"]
              for ours, theirs in TABLES.items()}
    for kind in "weight", "bias":
        params[f"norm.{kind}"] = file[f"embeddings.LayerNorm.{kind}"]
        for n in range(6):
            theirs, ours = f"encoder.layer.{n}.", f"blocks.{n}."
            for old, new in NAMES.items():
                params[f"{ours}{new}.{kind}"] = file[f"{theirs}{old}.{kind}"]
            params[f"{ours}attention.W_qkv.{kind}"] = torch.cat([
                file[f"{theirs}attention.self.{name}.{kind}"]
                for name in ("query", "key", "value")])
    return params


def embedding(hidden, real):
    """Return the mean of the last layer over the tokens, (b, e).

    It is normalised to length 1. ``hidden`` is (b, layer, i, e), as ``Encoder`` returns it, and
    ``real`` (b, i), as ``Encoder`` takes it.
    """
    real = real[..., None]  # (b, i, 1)
    mean = (hidden[:, -1] * real).sum(dim=1) / real.sum(dim=1)
    return F.normalize(mean, dim=-1)
