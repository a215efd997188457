"""Dense graph transformer layer (small molecules, adjacency as a matrix)."""
from typing import Dict, Optional

import torch
import torch.nn.functional as F
from torch import nn

try:
    from torch_geometric.utils import to_dense_adj
except ImportError:
    to_dense_adj = None


class NeighbourAttention(nn.Module):
    def __init__(self, hidden_dim: int, num_heads: int = 4, attn_dropout: float = 0.0):
        super().__init__()
        assert hidden_dim % num_heads == 0
        self.num_heads = num_heads
        self.dim_head = hidden_dim // num_heads
        self.Q = nn.Linear(hidden_dim, hidden_dim)
        self.K = nn.Linear(hidden_dim, hidden_dim)
        self.V = nn.Linear(hidden_dim, hidden_dim)
        self.O = nn.Linear(hidden_dim, hidden_dim)
        self.attn_dropout = attn_dropout

    def forward(self, h: torch.Tensor, adj: Optional[torch.Tensor] = None) -> Dict:
        """
        h:   (batch, nodes, hidden_dim)
        adj: (batch, nodes, nodes) or (nodes, nodes), 1 for an edge, self loops included
        """
        B, N, D = h.shape

        def split(x):
            return x.view(B, N, self.num_heads, self.dim_head).permute(0, 2, 1, 3)

        q, k, v = split(self.Q(h)), split(self.K(h)), split(self.V(h))
        score = torch.einsum("bhid,bhjd->bhij", q, k) * self.dim_head ** -0.5
        if adj is not None:
            if adj.dim() == 2:
                adj = adj.unsqueeze(0)
            no_edge = (adj == 0).unsqueeze(1)
            score = score.masked_fill(no_edge, -1e9)
        alpha = F.softmax(score, dim=-1)
        alpha = F.dropout(alpha, self.attn_dropout, training=self.training)

        out = torch.einsum("bhij,bhjd->bhid", alpha, v)
        out = self.O(out.permute(0, 2, 1, 3).reshape(B, N, D))
        return {"h": out, "alpha": alpha}


def batch_from_pyg(data):
    adj = to_dense_adj(data.edge_index, data.batch)
    eye = torch.eye(adj.size(-1), device=adj.device)
    return (adj + eye).clamp(max=1)


if __name__ == "__main__":
    layer = NeighbourAttention(32)
    ring = torch.eye(6) + torch.eye(6).roll(1, 0) + torch.eye(6).roll(-1, 0)
    print({k: tuple(v.shape) for k, v in layer(torch.randn(2, 6, 32), ring).items()})
