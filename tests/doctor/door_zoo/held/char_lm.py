"""Character level language model on tiny stories."""
import torch
import torch.nn as nn
from torch.nn import functional as F

# hyperparameters
batch_size = 32
block_size = 64
max_iters = 3000
learning_rate = 3e-4
device = 'cuda' if torch.cuda.is_available() else 'cpu'
n_embd = 96
n_head = 6
dropout = 0.1

torch.manual_seed(42)


class Head(nn.Module):
    """ one head of causal attention """

    def __init__(self, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer('tril', torch.tril(torch.ones(block_size, block_size)))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        k, q, v = self.key(x), self.query(x), self.value(x)
        att = q @ k.transpose(1, 2) / k.size(-1) ** 0.5   # B, T, T
        att = att.masked_fill(self.tril[:T, :T] == 0, float('-inf'))
        att = self.drop(att.softmax(dim=-1))
        return att @ v


class MultiHeadAttention(nn.Module):

    def __init__(self, num_heads, head_size):
        super().__init__()
        self.heads = nn.ModuleList(Head(head_size) for _ in range(num_heads))
        self.proj = nn.Linear(num_heads * head_size, n_embd)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        y = torch.cat([head(x) for head in self.heads], -1)
        return self.drop(self.proj(y))


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.sa = MultiHeadAttention(n_head, n_embd // n_head)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))
        self.ln_a = nn.LayerNorm(n_embd)
        self.ln_b = nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln_a(x))
        return x + self.mlp(self.ln_b(x))


if __name__ == '__main__':
    with open('stories.txt', encoding='utf-8') as f:
        text = f.read()
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text])
    emb = nn.Embedding(len(chars), n_embd).to(device)
    blocks = nn.Sequential(*[Block() for _ in range(4)]).to(device)
    head = nn.Linear(n_embd, len(chars)).to(device)
    params = [*emb.parameters(), *blocks.parameters(), *head.parameters()]
    opt = torch.optim.AdamW(params, lr=learning_rate)
    for step in range(max_iters):
        ix = torch.randint(len(data) - block_size - 1, (batch_size,))
        xb = torch.stack([data[i:i + block_size] for i in ix]).to(device)
        yb = torch.stack([data[i + 1:i + block_size + 1] for i in ix]).to(device)
        logits = head(blocks(emb(xb)))
        loss = F.cross_entropy(logits.flatten(0, 1), yb.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
