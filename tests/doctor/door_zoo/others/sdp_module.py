''' Attention without weights of its own; the projections live in SubLayers. '''
import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledDotProductAttention(nn.Module):

    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature      # usually d_k ** 0.5
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        # q, k, v: b x h x len x d;  mask: 0 = blocked
        logits = torch.matmul(q / self.temperature, k.transpose(2, 3))
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -1e9)
        attn = self.dropout(F.softmax(logits, dim=-1))
        return torch.matmul(attn, v), attn


class AddNorm(nn.Module):

    def __init__(self, d_model, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=1e-6)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, y):
        return self.norm(x + self.drop(y))


def get_pad_mask(seq, pad_idx):
    return (seq != pad_idx).unsqueeze(-2)


def get_subsequent_mask(seq):
    n = seq.size(1)
    return (1 - torch.triu(torch.ones((1, n, n), device=seq.device), diagonal=1)).bool()


if __name__ == '__main__':
    d_k = 64
    attend = ScaledDotProductAttention(temperature=d_k ** 0.5)
    seq = torch.randint(1, 50, (2, 9))
    h = torch.randn(2, 8, 9, d_k)
    mask = get_pad_mask(seq, 0) & get_subsequent_mask(seq)
    print(attend(h, h, h, mask.unsqueeze(1))[0].shape)
