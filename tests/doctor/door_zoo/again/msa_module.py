from __future__ import annotations

import math
from typing import Optional

import ml_collections
import torch
import torch.nn as nn
import torch.nn.functional as F

from openfold_lite.np import residue_constants as rc
from openfold_lite.utils.chunk_utils import chunk_layer


class Linear(nn.Linear):
    """nn.Linear with the initialisations of the supplement."""

    def __init__(self, in_dim: int, out_dim: int, bias: bool = True, init: str = "default"):
        super().__init__(in_dim, out_dim, bias=bias)
        with torch.no_grad():
            if init == "gating":
                self.weight.fill_(0.0)
                if bias:
                    self.bias.fill_(1.0)
            elif init == "final":
                self.weight.fill_(0.0)
            elif init == "glorot":
                nn.init.xavier_uniform_(self.weight)


class GatedAttention(nn.Module):
    """Self-attention over the residues; a sigmoid gate from the input multiplies each head's context."""

    def __init__(self, c_in: int, no_heads: int, gating: bool = True):
        super().__init__()
        self.c_in = c_in
        self.no_heads = no_heads
        self.c_hidden = c_in // no_heads
        self.linear_q = Linear(c_in, c_in, bias=False, init="glorot")
        self.linear_k = Linear(c_in, c_in, bias=False, init="glorot")
        self.linear_v = Linear(c_in, c_in, bias=False, init="glorot")
        self.linear_g = Linear(c_in, c_in, init="gating") if gating else None
        self.linear_o = Linear(c_in, c_in, init="final")

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        """x (*, N_res, c_in); mask (*, N_res), 1 for a residue that exists."""
        q, k, v = (
            lin(x).unflatten(-1, (self.no_heads, self.c_hidden)).transpose(-2, -3)
            for lin in (self.linear_q, self.linear_k, self.linear_v)
        )
        a = torch.matmul(q / math.sqrt(self.c_hidden), k.transpose(-1, -2))
        if mask is not None:
            a = a + (1e9 * (mask.to(a.dtype) - 1))[..., None, None, :]
        a = F.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(-2, -3)
        if self.linear_g is not None:
            g = torch.sigmoid(self.linear_g(x))
            o = o * g.unflatten(-1, (self.no_heads, self.c_hidden))
        return self.linear_o(o.flatten(-2))


class MSATransition(nn.Module):
    def __init__(self, c_m: int, n: int = 4):
        super().__init__()
        self.layer_norm = nn.LayerNorm(c_m)
        self.linear_1 = Linear(c_m, n * c_m)
        self.linear_2 = Linear(n * c_m, c_m, init="final")

    def forward(self, m, chunk_size: Optional[int] = None):
        if chunk_size is not None:
            return chunk_layer(self._transition, {"m": m}, chunk_size)
        return self._transition(m)

    def _transition(self, m):
        return self.linear_2(F.relu(self.linear_1(self.layer_norm(m))))


def model_config() -> ml_collections.ConfigDict:
    return ml_collections.ConfigDict({"c_m": 256, "no_heads": 8, "restypes": rc.restypes_with_x})
