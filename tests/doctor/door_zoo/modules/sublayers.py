''' Sublayers of the translation model '''
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledDotProductAttention(nn.Module):
    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        logits = q @ k.mT / self.temperature
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -1e9)
        attn = self.dropout(F.softmax(logits, dim=-1))
        return attn @ v, attn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v

        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
        self.fc = nn.Linear(n_head * d_v, d_model, bias=False)

        self.attention = ScaledDotProductAttention(temperature=np.power(d_k, 0.5))
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, q, k, v, mask=None):
        residual = q

        q = self.w_qs(q).unflatten(-1, (self.n_head, self.d_k)).transpose(1, 2)
        k = self.w_ks(k).unflatten(-1, (self.n_head, self.d_k)).transpose(1, 2)
        v = self.w_vs(v).unflatten(-1, (self.n_head, self.d_v)).transpose(1, 2)

        if mask is not None:
            mask = mask.unsqueeze(1)  # b x 1 x lq x lk
        out, attn = self.attention(q, k, v, mask=mask)

        out = self.dropout(self.fc(out.transpose(1, 2).flatten(2)))
        return self.norm(residual + out), attn


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_in, d_hid, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_in, d_hid)
        self.w_2 = nn.Linear(d_hid, d_in)
        self.layer_norm = nn.LayerNorm(d_in, eps=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        y = self.dropout(self.w_2(F.relu(self.w_1(x))))
        return self.layer_norm(x + y)
