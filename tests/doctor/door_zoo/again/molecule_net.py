from typing import List, Optional

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from rdkit import Chem
from torch_geometric.utils import to_dense_adj, to_dense_batch

ATOM_TYPES = ["C", "N", "O", "F", "P", "S", "Cl", "Br", "I"]


def atom_features(atom) -> List[float]:
    one_hot = [float(atom.GetSymbol() == s) for s in ATOM_TYPES]
    return one_hot + [atom.GetDegree() / 4, atom.GetFormalCharge(), float(atom.GetIsAromatic())]


class GraphSelfAttention(nn.Module):
    """Atoms attend to the atoms that they are bonded with (and to themselves)."""

    def __init__(self, hidden_dim: int, n_heads: int, dropout: float = 0.1):
        super().__init__()
        assert hidden_dim % n_heads == 0
        self.n_heads = n_heads
        self.d = hidden_dim // n_heads
        self.Q = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.K = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.V = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.O = nn.Linear(hidden_dim, hidden_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h, adj):
        # h (B, N, hidden_dim); adj (B, N, N), adj[b, i, j] = 1 where i receives from j
        B, N, _ = h.shape
        q = self.Q(h).reshape(B, N, self.n_heads, self.d)
        k = self.K(h).reshape(B, N, self.n_heads, self.d)
        v = self.V(h).reshape(B, N, self.n_heads, self.d)
        e = torch.einsum("bihd,bjhd->bijh", q, k) / np.sqrt(self.d)
        e = torch.where(adj.unsqueeze(-1) > 0, e, torch.full_like(e, -9e15))
        alpha = self.dropout(F.softmax(e, dim=2))
        out = torch.einsum("bijh,bjhd->bihd", alpha, v)
        return self.O(out.reshape(B, N, -1))


class MoleculeNet(nn.Module):
    def __init__(self, in_dim, hidden_dim=128, n_heads=8, depth=4):
        super().__init__()
        self.embed = nn.Linear(in_dim, hidden_dim)
        self.layers = nn.ModuleList([GraphSelfAttention(hidden_dim, n_heads) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(hidden_dim) for _ in range(depth)])
        self.readout = nn.Linear(hidden_dim, 1)

    def forward(self, x, edge_index, batch):
        dense, real = to_dense_batch(x, batch)
        adj = to_dense_adj(edge_index, batch) + torch.eye(dense.size(1))
        h = self.embed(dense)
        for layer, norm in zip(self.layers, self.norms):
            h = h + F.relu(norm(layer(h, adj).transpose(1, 2)).transpose(1, 2))
        return self.readout((h * real[..., None]).sum(1))
