import argparse

import torch
import torch.nn as nn


class PointWiseFeedForward(nn.Module):
    def __init__(self, hidden_units, dropout_rate):
        super().__init__()
        self.conv1 = nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.conv2 = nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.dropout1 = nn.Dropout(p=dropout_rate)
        self.dropout2 = nn.Dropout(p=dropout_rate)

    def forward(self, inputs):
        y = self.dropout1(self.conv1(inputs.transpose(-1, -2)))
        y = self.dropout2(self.conv2(y.relu())).transpose(-1, -2)
        return y + inputs


class SASRecBlock(nn.Module):
    """Self-attention of one block; the items are (batch, maxlen, hidden_units)."""

    def __init__(self, args):
        super().__init__()
        self.dev = args.device
        self.layernorm = nn.LayerNorm(args.hidden_units, eps=1e-8)
        self.attention = nn.MultiheadAttention(
            args.hidden_units, args.num_heads, args.dropout_rate)

    def forward(self, seqs, timeline_mask=None):
        if timeline_mask is not None:
            seqs = seqs * ~timeline_mask.unsqueeze(-1)
        tl = seqs.shape[1]
        attention_mask = ~torch.tril(torch.ones((tl, tl), dtype=torch.bool,
                                                device=self.dev))
        seqs = torch.transpose(seqs, 0, 1)
        Q = self.layernorm(seqs)
        mha_outputs, _ = self.attention(Q, seqs, seqs, attn_mask=attention_mask)
        seqs = Q + mha_outputs
        return torch.transpose(seqs, 0, 1)


class SASRec(nn.Module):
    def __init__(self, user_num, item_num, args):
        super().__init__()
        self.dev = args.device
        self.item_emb = nn.Embedding(item_num + 1, args.hidden_units, padding_idx=0)
        self.pos_emb = nn.Embedding(args.maxlen, args.hidden_units)
        self.blocks = nn.ModuleList(SASRecBlock(args) for _ in range(args.num_blocks))
        self.ffs = nn.ModuleList(
            PointWiseFeedForward(args.hidden_units, args.dropout_rate)
            for _ in range(args.num_blocks))

    def log2feats(self, log_seqs):
        seqs = self.item_emb(log_seqs) * self.item_emb.embedding_dim ** 0.5
        seqs = seqs + self.pos_emb.weight[:log_seqs.shape[1]]
        pad = log_seqs == 0
        for block, ff in zip(self.blocks, self.ffs):
            seqs = ff(block(seqs, pad))
        return seqs


parser = argparse.ArgumentParser()
parser.add_argument('--dataset', default='ml-1m')
parser.add_argument('--hidden_units', default=50, type=int)
parser.add_argument('--num_blocks', default=2, type=int)
parser.add_argument('--num_heads', default=1, type=int)
parser.add_argument('--maxlen', default=200, type=int)
parser.add_argument('--dropout_rate', default=0.2, type=float)
parser.add_argument('--device', default='cpu', type=str)

if __name__ == '__main__':
    args = parser.parse_args()
    model = SASRec(6040, 3416, args).to(args.device)
    print(model)
