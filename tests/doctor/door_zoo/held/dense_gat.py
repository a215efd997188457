import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import networkx as nx


def normalize_adj(adj):
    """adjacency with self loops, as a 0/1 float tensor"""
    adj = np.asarray(adj)
    adj = ((adj + adj.T + np.eye(len(adj))) > 0).astype(np.float32)
    return torch.from_numpy(adj)


class DotGraphAttention(nn.Module):
    """
    Attention between the nodes of dense batched graphs.
    h: (batch, nodes, in_dim), adj: (batch, nodes, nodes)
    """

    def __init__(self, in_dim, out_dim, num_heads=4, feat_drop=0.0):
        super().__init__()
        assert out_dim % num_heads == 0
        self.num_heads = num_heads
        self.d = out_dim // num_heads
        self.Q = nn.Linear(in_dim, out_dim)
        self.K = nn.Linear(in_dim, out_dim)
        self.V = nn.Linear(in_dim, out_dim)
        self.O = nn.Linear(out_dim, out_dim)
        self.feat_drop = nn.Dropout(feat_drop)

    def forward(self, h, adj):
        B, N, _ = h.shape
        h = self.feat_drop(h)
        q = self.Q(h).view(B, N, self.num_heads, self.d).transpose(1, 2)
        k = self.K(h).view(B, N, self.num_heads, self.d).transpose(1, 2)
        v = self.V(h).view(B, N, self.num_heads, self.d).transpose(1, 2)
        e = torch.matmul(q, k.transpose(2, 3)) / self.d ** 0.5
        alpha = F.softmax(e, dim=-1)
        # only the neighbours count
        alpha = alpha * adj.unsqueeze(1)
        out = torch.matmul(alpha, v).transpose(1, 2).reshape(B, N, -1)
        return self.O(out)


class NodeClassifier(nn.Module):

    def __init__(self, n_feat, n_hid, n_class, num_heads):
        super().__init__()
        self.inp = DotGraphAttention(n_feat, n_hid, num_heads, 0.5)
        self.mid = DotGraphAttention(n_hid, n_hid, num_heads, 0.5)
        self.cls = nn.Linear(n_hid, n_class)

    def forward(self, x, adj):
        x = F.elu(self.inp(x, adj))
        x = F.elu(self.mid(x, adj))
        return F.log_softmax(self.cls(x), dim=-1)


def main():
    g = nx.karate_club_graph()
    adj = normalize_adj(nx.to_numpy_array(g))[None]
    labels = torch.tensor([g.nodes[i]["club"] == "Officer" for i in g]).long()
    x = torch.eye(len(labels))[None]
    net = NodeClassifier(len(labels), 32, 2, 4)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=5e-4)
    for epoch in range(200):
        loss = F.nll_loss(net(x, adj)[0], labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("loss %.4f" % loss.item())


if __name__ == "__main__":
    main()
