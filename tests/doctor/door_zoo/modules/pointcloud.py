import torch
import torch.nn as nn
import torch.nn.functional as F


class PointSelfAttention(nn.Module):
    """Attention between the points of a cloud, (batch, points, channels)."""

    def __init__(self, channels, heads=4):
        super(PointSelfAttention, self).__init__()
        self.heads = heads
        self.d = channels // heads
        self.q_conv = nn.Linear(channels, channels, bias=False)
        self.k_conv = nn.Linear(channels, channels, bias=False)
        self.v_conv = nn.Linear(channels, channels)
        self.trans_conv = nn.Linear(channels, channels)

    def forward(self, x):
        B, N, C = x.size()
        x_q = self.q_conv(x).view(B, N, self.heads, self.d).permute(0, 2, 1, 3)
        x_k = self.k_conv(x).view(B, N, self.heads, self.d).permute(0, 2, 1, 3)
        x_v = self.v_conv(x).view(B, N, self.heads, self.d).permute(0, 2, 1, 3)

        energy = torch.matmul(x_k, x_q.transpose(-1, -2)) / self.d ** 0.5  # B, h, N, N
        attention = F.softmax(energy, dim=-1)
        x_r = torch.matmul(attention, x_v).permute(0, 2, 1, 3).reshape(B, N, C)
        return self.trans_conv(x_r)


def farthest_points(xyz, n):
    B, N, _ = xyz.shape
    chosen = torch.zeros(B, n, dtype=torch.long, device=xyz.device)
    distance = torch.full((B, N), 1e10, device=xyz.device)
    farthest = torch.zeros(B, dtype=torch.long, device=xyz.device)
    rows = torch.arange(B, device=xyz.device)
    for i in range(n):
        chosen[:, i] = farthest
        centre = xyz[rows, farthest].unsqueeze(1)
        distance = torch.minimum(distance, (xyz - centre).pow(2).sum(-1))
        farthest = distance.argmax(-1)
    return chosen


class CloudClassifier(nn.Module):
    def __init__(self, n_classes=40, channels=64):
        super(CloudClassifier, self).__init__()
        self.lift = nn.Sequential(nn.Linear(3, channels), nn.ReLU())
        self.sa1 = PointSelfAttention(channels)
        self.sa2 = PointSelfAttention(channels)
        self.out = nn.Linear(channels, n_classes)

    def forward(self, xyz):
        x = self.lift(xyz)
        x = x + self.sa1(x)
        x = x + self.sa2(x)
        return self.out(x.max(dim=1)[0])
