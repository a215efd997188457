"""Row attention over the residues of a protein."""
from typing import Optional

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn


class ResidueAttention(nn.Module):
    def __init__(self, embed_dim: int, attention_heads: int, dropout: float = 0.1):
        super().__init__()
        self.heads = attention_heads
        self.head_dim = embed_dim // attention_heads
        self.dropout = dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: torch.Tensor, padding_mask: Optional[torch.Tensor] = None):
        """x: (B, L, C); padding_mask: (B, L), True for residues that are padding."""
        B, L, C = x.shape
        q = self.q_proj(x).view(B, L, self.heads, self.head_dim) * self.head_dim ** -0.5
        k = self.k_proj(x).view(B, L, self.heads, self.head_dim)
        v = self.v_proj(x).view(B, L, self.heads, self.head_dim)

        logits = torch.einsum("bihc,bjhc->bhij", q, k)
        if padding_mask is not None:
            logits = logits.masked_fill(padding_mask[:, None, None, :], -10000.0)
        probs = logits.softmax(dim=-1)
        probs = F.dropout(probs, self.dropout)

        out = torch.einsum("bhij,bjhc->bihc", probs, v)
        return self.out_proj(out.reshape(B, L, C)), probs


class ContactPredictor(pl.LightningModule):
    def __init__(self, vocab_size=33, embed_dim=64, attention_heads=4, lr=1e-4):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(vocab_size, embed_dim, padding_idx=1)
        self.attn = ResidueAttention(embed_dim, attention_heads)
        self.regression = nn.Linear(attention_heads, 1)

    def forward(self, tokens):
        _, probs = self.attn(self.embed(tokens), tokens.eq(1))
        sym = probs + probs.transpose(-1, -2)
        return self.regression(sym.permute(0, 2, 3, 1)).squeeze(-1)

    def training_step(self, batch, batch_idx):
        tokens, contacts = batch
        loss = F.binary_cross_entropy_with_logits(self(tokens), contacts.float())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
