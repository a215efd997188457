import random
from collections import defaultdict

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn as nn
import torch.nn.functional as F


def normalize_adj(mx):
    rowsum = np.array(mx.sum(1))
    r_inv = np.power(rowsum, -0.5).flatten()
    r_inv[np.isinf(r_inv)] = 0.0
    d = sp.diags(r_inv)
    return mx.dot(d).transpose().dot(d)


class NodeAttention(nn.Module):
    def __init__(self, nhid, nheads, dropout=0.6):
        super(NodeAttention, self).__init__()
        assert nhid % nheads == 0
        self.nheads = nheads
        self.dk = nhid // nheads
        self.lin_q = nn.Linear(nhid, nhid)
        self.lin_k = nn.Linear(nhid, nhid)
        self.lin_v = nn.Linear(nhid, nhid)
        self.lin_out = nn.Linear(nhid, nhid)
        self.dropout = dropout

    def split(self, x):
        b, n, _ = x.size()
        return x.view(b, n, self.nheads, self.dk).permute(0, 2, 1, 3)

    def forward(self, x, adj):
        """x (batch, nodes, nhid), adj (batch, nodes, nodes) with 1 for an edge or the node itself"""
        b, n, f = x.size()
        q, k, v = self.split(self.lin_q(x)), self.split(self.lin_k(x)), self.split(self.lin_v(x))
        e = torch.matmul(q, k.transpose(-1, -2))
        e = e.masked_fill(adj.unsqueeze(1) == 0, -1e9)
        attention = F.softmax(e, dim=-1) / np.sqrt(self.dk)
        attention = F.dropout(attention, self.dropout, training=self.training)
        h = torch.matmul(attention, v)
        h = h.permute(0, 2, 1, 3).reshape(b, n, f)
        return self.lin_out(h)


class GTN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, nheads):
        super(GTN, self).__init__()
        self.inp = nn.Linear(nfeat, nhid)
        self.att1 = NodeAttention(nhid, nheads)
        self.att2 = NodeAttention(nhid, nheads)
        self.out = nn.Linear(nhid, nclass)

    def forward(self, x, adj):
        x = F.elu(self.inp(x))
        x = x + self.att1(x, adj)
        x = x + self.att2(x, adj)
        return F.log_softmax(self.out(x), dim=-1)
