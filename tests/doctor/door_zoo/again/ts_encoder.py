from typing import Optional

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class ETTDataset(Dataset):
    def __init__(self, csv, seq_len=96, pred_len=24):
        df = pd.read_csv(csv)
        self.values = df[df.columns[1:]].to_numpy(np.float32)
        self.seq_len, self.pred_len = seq_len, pred_len

    def __len__(self):
        return len(self.values) - self.seq_len - self.pred_len + 1

    def __getitem__(self, i):
        return self.values[i:i + self.seq_len], self.values[i + self.seq_len:i + self.seq_len + self.pred_len]


class ChannelNorm(nn.Module):
    """LayerNorm without the permutes, taken over from the convolutional version of the model."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=1, unbiased=False, keepdim=True)
        return (x - mean) / (var + self.eps).sqrt() * self.gain + self.shift


class TemporalAttention(nn.Module):
    """Pre-norm self-attention over the time steps; x is (batch, time, d_model)."""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.norm = ChannelNorm(d_model)
        self.to_q = nn.Linear(d_model, d_model)
        self.to_k = nn.Linear(d_model, d_model)
        self.to_v = nn.Linear(d_model, d_model)
        self.proj = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (rearrange(f(y), "b t (h d) -> b h t d", h=self.n_heads) for f in (self.to_q, self.to_k, self.to_v))
        t = x.size(1)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.size(-1) ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        attn = self.drop(scores.masked_fill(future, float("-inf")).softmax(-1))
        out = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.proj(rearrange(out, "b h t d -> b t (h d)"))


class Forecaster(nn.Module):
    def __init__(self, c_in, d_model=64, n_heads=4, depth=2, pred_len=24):
        super().__init__()
        self.inp = nn.Linear(c_in, d_model)
        self.attns = nn.ModuleList([TemporalAttention(d_model, n_heads) for _ in range(depth)])
        self.ffs = nn.ModuleList(
            [nn.Sequential(ChannelNorm(d_model), nn.Linear(d_model, 4 * d_model), nn.GELU(),
                           nn.Linear(4 * d_model, d_model)) for _ in range(depth)])
        self.out = nn.Linear(d_model, pred_len)

    def forward(self, x):
        x = self.inp(x)
        for attn, ff in zip(self.attns, self.ffs):
            x = x + attn(x)
            x = x + ff(x)
        return self.out(x[:, -1])


def main():
    loader = DataLoader(ETTDataset("ETTh1.csv"), batch_size=32, shuffle=True)
    model = Forecaster(7)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for xb, yb in loader:
        loss = F.mse_loss(model(xb), yb[..., -1])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
