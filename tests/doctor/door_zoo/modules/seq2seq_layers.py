import random

import torch
import torch.nn as nn

SEED = 1234
random.seed(SEED)
torch.manual_seed(SEED)

device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')


class MultiHeadAttentionLayer(nn.Module):
    def __init__(self, hid_dim, n_heads, dropout, device):
        super().__init__()

        assert hid_dim % n_heads == 0

        self.hid_dim = hid_dim
        self.n_heads = n_heads
        self.head_dim = hid_dim // n_heads

        self.fc_q = nn.Linear(hid_dim, hid_dim)
        self.fc_k = nn.Linear(hid_dim, hid_dim)
        self.fc_v = nn.Linear(hid_dim, hid_dim)
        self.fc_o = nn.Linear(hid_dim, hid_dim)

        self.dropout = nn.Dropout(dropout)
        self.scale = torch.tensor(float(self.head_dim)).sqrt().to(device)

    def forward(self, query, key, value, mask=None):
        # query: [batch, len q, hid dim], key and value: [batch, len k, hid dim]
        Q = self.to_heads(self.fc_q(query))
        K = self.to_heads(self.fc_k(key))
        V = self.to_heads(self.fc_v(value))

        energy = Q @ K.transpose(2, 3) / self.scale
        # mask: [batch, 1, 1 or len q, len k]
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = energy.softmax(-1)

        x = self.dropout(attention) @ V
        x = x.permute(0, 2, 1, 3).flatten(2)
        return self.fc_o(x), attention

    def to_heads(self, x):
        batch, length, _ = x.shape
        return x.view(batch, length, self.n_heads, self.head_dim).permute(0, 2, 1, 3)


class PositionwiseFeedforwardLayer(nn.Module):
    def __init__(self, hid_dim, pf_dim, dropout):
        super().__init__()
        self.fc_1 = nn.Linear(hid_dim, pf_dim)
        self.fc_2 = nn.Linear(pf_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc_2(self.dropout(torch.relu(self.fc_1(x))))


def make_src_mask(src, pad_idx=1):
    return (src != pad_idx).unsqueeze(1).unsqueeze(2)


if __name__ == '__main__':
    layer = MultiHeadAttentionLayer(256, 8, 0.1, device).to(device)
    src = torch.randint(0, 50, (4, 12)).to(device)
    emb = torch.randn(4, 12, 256).to(device)
    out, att = layer(emb, emb, emb, make_src_mask(src))
    print(out.shape, att.shape)
