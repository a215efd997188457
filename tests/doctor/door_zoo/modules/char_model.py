# char level language model, moved from LSTM to attention
import torch
import torch.nn as nn
from tqdm import tqdm

EMB = 64
HEADS = 2


class CharAttention(nn.Module):
    def __init__(self, emb=EMB, heads=HEADS):
        super(CharAttention, self).__init__()
        self.emb = emb
        self.heads = heads
        self.size = emb // heads
        self.lin_q = nn.Linear(emb, emb)
        self.lin_k = nn.Linear(emb, emb)
        self.lin_v = nn.Linear(emb, emb)
        self.lin_o = nn.Linear(emb, emb)

    def split(self, x):
        b, n, _ = x.shape
        return x.reshape(b, n, self.heads, self.size).transpose(1, 2)

    def forward(self, x):
        q = self.split(self.lin_q(x))
        k = self.split(self.lin_k(x))
        v = self.split(self.lin_v(x))

        scores = torch.matmul(q, k.transpose(2, 3)) / self.size ** 0.5
        # no peeking: character i sees only 0..i
        for i in range(scores.size(1)):
            scores[:, :, i:i + 1, i + 1:] = float('-inf')
        weights = torch.softmax(scores, dim=-1)

        out = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.lin_o(out)


class CharModel(nn.Module):
    def __init__(self, n_chars):
        super(CharModel, self).__init__()
        self.embed = nn.Embedding(n_chars, EMB)
        self.attn = CharAttention()
        self.head = nn.Linear(EMB, n_chars)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(x + self.attn(x))


def fit(model, batches, epochs=5, lr=1e-3):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        bar = tqdm(batches)
        for x, y in bar:
            logits = model(x)
            loss = nn.functional.cross_entropy(logits.transpose(1, 2), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            bar.set_description(f'epoch {epoch} loss {loss.item():.3f}')
