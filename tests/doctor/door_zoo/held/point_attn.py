import torch
import torch.nn as nn
import torch.nn.functional as F


def knn(x, k):
    """indices of the k nearest points, x: (B, 3, N)"""
    dist = torch.cdist(x.transpose(1, 2), x.transpose(1, 2))
    return dist.topk(k, largest=False)[1]


class PointAttention(nn.Module):
    """self-attention between the points of a cloud, features are (B, C, N)"""

    def __init__(self, channels):
        super(PointAttention, self).__init__()
        self.channels = channels
        self.q_conv = nn.Conv1d(channels, channels, 1, bias=False)
        self.k_conv = nn.Conv1d(channels, channels, 1, bias=False)
        self.v_conv = nn.Conv1d(channels, channels, 1)
        self.trans_conv = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        B, C, N = x.size()
        q = self.q_conv(x).view(B, N, C)
        k = self.k_conv(x).view(B, N, C)
        v = self.v_conv(x).view(B, N, C)
        energy = torch.bmm(q, k.transpose(1, 2)) / C ** 0.5
        attention = F.softmax(energy, dim=-1)
        r = torch.bmm(attention, v).permute(0, 2, 1)
        return x + self.trans_conv(r)


class PointClassifier(nn.Module):

    def __init__(self, num_classes=40, channels=128):
        super(PointClassifier, self).__init__()
        self.embed = nn.Sequential(
            nn.Conv1d(3, channels, 1, bias=False), nn.BatchNorm1d(channels), nn.ReLU(),
            nn.Conv1d(channels, channels, 1, bias=False), nn.BatchNorm1d(channels), nn.ReLU())
        self.sa1 = PointAttention(channels)
        self.sa2 = PointAttention(channels)
        self.fuse = nn.Sequential(
            nn.Conv1d(channels * 2, 512, 1, bias=False), nn.BatchNorm1d(512),
            nn.LeakyReLU(0.2))
        self.head = nn.Sequential(
            nn.Linear(512, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, num_classes))

    def forward(self, xyz):
        x = self.embed(xyz)
        x1 = self.sa1(x)
        x2 = self.sa2(x1)
        x = self.fuse(torch.cat((x1, x2), dim=1))
        return self.head(x.max(dim=-1)[0])


if __name__ == '__main__':
    net = PointClassifier()
    cloud = torch.rand(4, 3, 256)
    print(net(cloud).shape, knn(cloud, 8).shape)
