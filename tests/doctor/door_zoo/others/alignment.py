"""Soft alignment of a hypothesis with a premise (sentence pair matching)."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def soft_align(x, y, temperature=1.0, return_weights=True):
    """For each word of x, the mixture of the words of y that it is closest to.

    x: (batch, len_x, dim)
    y: (batch, len_y, dim)
    A low temperature makes the alignment harder.
    """
    sim = torch.einsum("bid,bjd->bij", x, y)
    sim = sim / (temperature * x.shape[-1] ** 0.5)
    w = F.softmax(sim, dim=-1)
    aligned = w @ y
    if return_weights:
        return aligned, w
    return aligned


class PairClassifier(nn.Module):
    def __init__(self, vocab_size, dim=100, hidden=200, n_classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.encode = nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)
        self.out = nn.Sequential(
            nn.Linear(dim * 6, hidden), nn.ReLU(), nn.Dropout(0.3), nn.Linear(hidden, n_classes)
        )

    def _side(self, a, b):
        aligned = soft_align(a, b, return_weights=False)
        both = torch.cat([a, aligned, a - aligned], dim=-1)
        return both.max(dim=1).values

    def forward(self, premise, hypothesis):
        p, _ = self.encode(self.embed(premise))
        h, _ = self.encode(self.embed(hypothesis))
        return self.out(torch.cat([self._side(p, h), self._side(h, p)], dim=-1))


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--data", default="data/snli")
    return p.parse_args()


if __name__ == "__main__":
    args = get_args()
    model = PairClassifier(30000)
    print(args, sum(p.numel() for p in model.parameters()))
