import math
import os
import random

import torch
import torch.nn as nn
import wandb

SEED = 1234
random.seed(SEED)
torch.manual_seed(SEED)
device = "cuda" if torch.cuda.is_available() else "cpu"


def make_trg_mask(trg, pad_idx=0):
    """1 for what may be attended to, 0 for padding and for later tokens; (b, 1, n, n)"""
    n = trg.shape[1]
    pad = (trg != pad_idx)[:, None, None, :]
    sub = torch.tril(torch.ones(n, n, device=trg.device)).bool()
    return (pad & sub).int()


def attention(Q, K, V, mask=None):
    """
    Q, K, V: (b, h, n, d)
    mask: as from make_trg_mask
    """
    energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / math.sqrt(Q.shape[-1])
    if mask is not None:
        energy = energy.masked_fill(mask == 1, -1e10)
    attn = torch.softmax(energy, dim=-1)
    x = torch.matmul(attn, V)
    return x, attn


def train(model, iterator, optimizer, clip=1.0):
    model.train()
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    total = 0.0
    for i, (src, trg) in enumerate(iterator):
        optimizer.zero_grad()
        out, _ = model(src.to(device), trg[:, :-1].to(device))
        loss = criterion(out.flatten(0, 1), trg[:, 1:].flatten().to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        total += loss.item()
        wandb.log({"loss": loss.item(), "ppl": math.exp(min(loss.item(), 20))})
    return total / (i + 1)


if __name__ == "__main__":
    wandb.init(project="seq2seq", mode=os.environ.get("WANDB_MODE", "offline"))
    trg = torch.tensor([[4, 5, 6, 0]])
    h = torch.randn(1, 2, 4, 8)
    print(attention(h, h, h, make_trg_mask(trg))[1])
