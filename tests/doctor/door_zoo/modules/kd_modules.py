''' Attention modules of the set encoder '''
import numpy as np
import torch
import torch.nn as nn


class ScaledDotProduct(nn.Module):

    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)
        self.softmax = nn.Softmax(dim=2)

    def forward(self, q, k, v, mask=None):
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.temperature
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        attn = self.dropout(self.softmax(scores))
        return torch.matmul(attn, v), attn


class SetMultiHeadAttention(nn.Module):

    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_k
        self.d_v = d_v

        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        for w in (self.w_qs, self.w_ks, self.w_vs):
            nn.init.xavier_normal_(w.weight)

        self.attention = ScaledDotProduct(temperature=np.power(d_k, 0.5),
                                          attn_dropout=dropout)
        self.fc = nn.Linear(n_head * d_v, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        b, lq, lk = q.size(0), q.size(1), k.size(1)
        heads_q = self.w_qs(q).view(b, lq, self.n_head, self.d_k).permute(0, 2, 1, 3)
        heads_k = self.w_ks(k).view(b, lk, self.n_head, self.d_k).permute(0, 2, 1, 3)
        heads_v = self.w_vs(v).view(b, lk, self.n_head, self.d_v).permute(0, 2, 1, 3)

        if mask is not None:
            mask = mask.unsqueeze(1)  # (b, 1, lq, lk), True is masked
        output, attn = self.attention(heads_q, heads_k, heads_v, mask=mask)
        output = output.permute(0, 2, 1, 3).reshape(b, lq, self.n_head * self.d_v)
        return self.dropout(self.fc(output)), attn


if __name__ == '__main__':
    mha = SetMultiHeadAttention(4, 64, 16, 16)
    x = torch.randn(2, 7, 64)
    y, w = mha(x, x, x)
    print(y.shape, w.shape)
