# Lecture 9: attention, the slow way (one Linear per head)
import numpy as np
import torch
import torch.nn as nn


class SlowMultiHead(nn.Module):
    def __init__(self, input_dim, num_heads):
        super().__init__()
        assert input_dim % num_heads == 0, "dims do not fit"
        self.num_heads = num_heads
        self.head_dim = input_dim // num_heads

        self.q_layers = nn.ModuleList(
            [nn.Linear(input_dim, self.head_dim) for _ in range(num_heads)])
        self.k_layers = nn.ModuleList(
            [nn.Linear(input_dim, self.head_dim) for _ in range(num_heads)])
        self.v_layers = nn.ModuleList(
            [nn.Linear(input_dim, self.head_dim) for _ in range(num_heads)])
        self.combine = nn.Linear(input_dim, input_dim)

    def single_head(self, i, x, mask):
        q = self.q_layers[i](x)
        k = self.k_layers[i](x)
        v = self.v_layers[i](x)
        s = torch.bmm(q, k.transpose(1, 2)) / np.sqrt(self.head_dim)
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        w = torch.softmax(s, dim=2)
        return torch.bmm(w, v), w

    def forward(self, x, mask=None):
        outs, maps = [], []
        for i in range(self.num_heads):
            o, w = self.single_head(i, x, mask)
            outs.append(o)
            maps.append(w)
        self.attention_maps = torch.stack(maps, dim=1).detach()
        return self.combine(torch.cat(outs, dim=-1))


def plot_maps(layer, tokens, path="maps.png"):
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, layer.num_heads, figsize=(3 * layer.num_heads, 3))
    for h, ax in enumerate(np.atleast_1d(axes)):
        ax.imshow(layer.attention_maps[0, h].numpy())
        ax.set_xticks(range(len(tokens)), tokens, rotation=90)
        ax.set_yticks(range(len(tokens)), tokens)
    fig.savefig(path)


if __name__ == "__main__":
    sentence = "the cat sat on the mat".split()
    torch.manual_seed(0)
    x = torch.randn(1, len(sentence), 24)
    slow = SlowMultiHead(24, 3)
    print(slow(x).shape)
    plot_maps(slow, sentence)
