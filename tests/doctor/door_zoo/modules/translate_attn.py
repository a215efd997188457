import torch
import torch.nn as nn


class TranslationAttention(nn.Module):
    def __init__(self, embed_size, heads):
        super(TranslationAttention, self).__init__()
        self.embed_size = embed_size
        self.heads = heads
        self.head_dim = embed_size // heads

        assert self.head_dim * heads == embed_size, "heads must divide embed_size"

        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        N, query_len, _ = query.shape
        v = self.values(values).reshape(N, -1, self.heads, self.head_dim)
        k = self.keys(keys).reshape(N, -1, self.heads, self.head_dim)
        q = self.queries(query).reshape(N, -1, self.heads, self.head_dim)

        energy = torch.einsum("nqhd,nkhd->nhqk", q, k)
        if mask is not None:
            # mask: (N, 1, 1, key_len) or (N, 1, query_len, key_len)
            energy = energy.masked_fill(mask == 0, -1e20)
        weights = (energy / self.embed_size ** 0.5).softmax(dim=-1)

        out = torch.einsum("nhqk,nkhd->nqhd", weights, v)
        return self.fc_out(out.reshape(N, query_len, self.embed_size))


class TransformerBlock(nn.Module):
    def __init__(self, embed_size, heads, dropout, forward_expansion):
        super(TransformerBlock, self).__init__()
        self.attention = TranslationAttention(embed_size, heads)
        self.norm1 = nn.LayerNorm(embed_size)
        self.norm2 = nn.LayerNorm(embed_size)
        self.feed_forward = nn.Sequential(
            nn.Linear(embed_size, forward_expansion * embed_size),
            nn.ReLU(),
            nn.Linear(forward_expansion * embed_size, embed_size),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, value, key, query, mask):
        x = self.dropout(self.norm1(self.attention(value, key, query, mask) + query))
        return self.dropout(self.norm2(self.feed_forward(x) + x))


if __name__ == "__main__":
    block = TransformerBlock(256, 8, 0.1, 4)
    x = torch.rand(2, 9, 256)
    print(block(x, x, x, None).shape)
