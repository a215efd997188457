""" Feature interaction by self-attention between the fields of an ad impression. """
import torch
from torch import nn


class DotAttention(nn.Module):
    def __init__(self, dropout_rate=0.):
        super(DotAttention, self).__init__()
        self.dropout = nn.Dropout(dropout_rate) if dropout_rate > 0 else None

    def forward(self, Q, K, V, scale=None):
        scores = torch.bmm(Q, K.transpose(1, 2))
        if scale:
            scores = scores / scale
        attention = scores.softmax(dim=-1)
        if self.dropout is not None:
            attention = self.dropout(attention)
        return torch.bmm(attention, V)


class FieldInteraction(nn.Module):
    def __init__(self, embedding_dim, num_heads=2, dropout_rate=0.):
        super(FieldInteraction, self).__init__()
        assert embedding_dim % num_heads == 0
        self.embedding_dim = embedding_dim
        self.num_heads = num_heads
        self.attention_dim = embedding_dim // num_heads
        self.scale = self.attention_dim ** 0.5
        self.W_q = nn.Linear(embedding_dim, embedding_dim, bias=False)
        self.W_k = nn.Linear(embedding_dim, embedding_dim, bias=False)
        self.W_v = nn.Linear(embedding_dim, embedding_dim, bias=False)
        self.W_o = nn.Linear(embedding_dim, embedding_dim, bias=False)
        self.dot_attention = DotAttention(dropout_rate)

    def forward(self, X):
        # bmm over (batch * heads, fields, attention_dim)
        folded = (X.size(0) * self.num_heads, X.size(1), self.attention_dim)
        query, key, value = (W(X).view(folded) for W in (self.W_q, self.W_k, self.W_v))
        output = self.dot_attention(query, key, value, scale=self.scale)
        return self.W_o(output.view(X.size()))


class InteractNet(nn.Module):
    def __init__(self, vocab_sizes, embedding_dim=16, num_heads=2, num_layers=2):
        super(InteractNet, self).__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(v, embedding_dim) for v in vocab_sizes)
        self.layers = nn.Sequential(
            *[FieldInteraction(embedding_dim, num_heads) for _ in range(num_layers)])
        self.fc = nn.Linear(len(vocab_sizes) * embedding_dim, 1)

    def forward(self, ids):
        X = torch.stack([e(ids[:, i]) for i, e in enumerate(self.embeddings)], dim=1)
        return torch.sigmoid(self.fc(self.layers(X).flatten(start_dim=1)))
