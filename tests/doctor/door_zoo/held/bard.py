import torch
import torch.nn as nn
import torch.nn.functional as F
import wandb

from torch.utils.data import DataLoader, Dataset

EMB = 128
CONTEXT = 48
DROP = 0.2
LR = 1e-3


class Verses(Dataset):

    def __init__(self, ids):
        self.ids = ids

    def __len__(self):
        return len(self.ids) - CONTEXT - 1

    def __getitem__(self, i):
        chunk = self.ids[i:i + CONTEXT + 1]
        return chunk[:-1], chunk[1:]


class Head(nn.Module):

    def __init__(self, head_size):
        super().__init__()
        self.query = nn.Linear(EMB, head_size, bias=False)
        self.key = nn.Linear(EMB, head_size, bias=False)
        self.value = nn.Linear(EMB, head_size, bias=False)
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT).tril())
        self.dropout = nn.Dropout(DROP)

    def forward(self, x):
        b, t, c = x.shape
        q = self.query(x)
        k = self.key(x)
        wei = q @ k.transpose(-2, -1) * c ** -0.5
        wei = wei.masked_fill(self.mask[:t, :t] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        wei = self.dropout(wei)
        return wei @ self.value(x)


class Poet(nn.Module):

    def __init__(self, vocab, n_heads=8):
        super().__init__()
        self.tok = nn.Embedding(vocab, EMB)
        self.pos = nn.Embedding(CONTEXT, EMB)
        self.heads = nn.ModuleList([Head(EMB // n_heads) for _ in range(n_heads)])
        self.out = nn.Linear(EMB, vocab)

    def forward(self, idx):
        x = self.tok(idx) + self.pos.weight[:idx.size(1)]
        x = x + torch.cat([h(x) for h in self.heads], dim=-1)
        return self.out(x)


def train(path):
    wandb.init(project="bard")
    raw = open(path).read()
    vocab = sorted(set(raw))
    ids = torch.tensor([vocab.index(c) for c in raw])
    model = Poet(len(vocab))
    opt = torch.optim.Adam(model.parameters(), LR)
    for xb, yb in DataLoader(Verses(ids), batch_size=64, shuffle=True):
        loss = F.cross_entropy(model(xb).transpose(1, 2), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        wandb.log({"loss": loss.item()})


if __name__ == "__main__":
    train("sonnets.txt")
