"""Traffic speed forecasting, PeMS loop detectors."""
import os
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn

HISTORY = 12
HORIZON = 3


class TemporalEncoder(nn.Module):
    """Attention over the time steps of a window, x: (batch, time, features)."""

    def __init__(self, d_model=64, nhead=4, dropout=0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim=d_model, num_heads=nhead,
                                          dropout=dropout)

    def forward(self, x):
        out, weights = self.attn(x, x, x)
        return out


class SpeedForecaster(nn.Module):

    def __init__(self, n_sensors, d_model=64, nhead=4, n_layers=2):
        super().__init__()
        self.inp = nn.Linear(n_sensors, d_model)
        self.pos = nn.Parameter(torch.zeros(1, HISTORY, d_model))
        self.layers = nn.ModuleList(TemporalEncoder(d_model, nhead) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.out = nn.Linear(d_model, n_sensors * HORIZON)

    def forward(self, x):
        h = self.inp(x) + self.pos
        for layer, norm in zip(self.layers, self.norms):
            h = norm(h + layer(h))
        return self.out(h[:, -1]).view(len(x), HORIZON, -1)


def windows(frame):
    values = frame.to_numpy(dtype=np.float32)
    values = (values - values.mean()) / values.std()
    xs, ys = [], []
    for i in range(len(values) - HISTORY - HORIZON):
        xs.append(values[i:i + HISTORY])
        ys.append(values[i + HISTORY:i + HISTORY + HORIZON])
    return torch.from_numpy(np.stack(xs)), torch.from_numpy(np.stack(ys))


def fit(csv, epochs=30, batch=64):
    frame = pd.read_csv(csv, index_col=0)
    x, y = windows(frame)
    net = SpeedForecaster(x.shape[-1])
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(epochs):
        start, total = time.time(), 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = (net(x[idx]) - y[idx]).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(epoch, total / len(x), time.time() - start)
    torch.save(net.state_dict(), os.path.splitext(csv)[0] + ".pt")


if __name__ == "__main__":
    fit("pems_bay.csv")
