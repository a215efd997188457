import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import wandb


def get_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--attn_dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--steps", type=int, default=10_000)
    return parser.parse_args(argv)


class FlashSelfAttention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.n_heads = args.heads
        self.head_dim = args.dim // args.heads
        self.p = args.attn_dropout
        self.wq = nn.Linear(args.dim, args.heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.heads * self.head_dim, args.dim, bias=False)

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = (
            w(x).view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2)
            for w in (self.wq, self.wk, self.wv)
        )
        out = F.scaled_dot_product_attention(
            xq, xk, xv, dropout_p=self.p if self.training else 0.0, is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(bsz, seqlen, -1))


class Layer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.attn = FlashSelfAttention(args)
        self.norm1 = nn.LayerNorm(args.dim)
        self.norm2 = nn.LayerNorm(args.dim)
        self.mlp = nn.Sequential(
            nn.Linear(args.dim, 4 * args.dim), nn.GELU(), nn.Linear(4 * args.dim, args.dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def train(args):
    wandb.init(project="flash-lm", config=vars(args))
    model = nn.Sequential(*[Layer(args) for _ in range(args.layers)])
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        x = torch.randn(8, 128, args.dim)
        loss = F.mse_loss(model(x)[:, :-1], x[:, 1:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        wandb.log({"loss": loss.item()}, step=step)


if __name__ == "__main__":
    train(get_args())
