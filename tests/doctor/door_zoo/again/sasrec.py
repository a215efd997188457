import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn

from data_loader import WarpSampler, data_partition
from metrics import ndcg_at_k


class PointWiseFeedForward(torch.nn.Module):
    def __init__(self, hidden_units, dropout_rate):
        super(PointWiseFeedForward, self).__init__()
        self.conv1 = torch.nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.relu = torch.nn.ReLU()
        self.conv2 = torch.nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.dropout = torch.nn.Dropout(p=dropout_rate)

    def forward(self, inputs):
        out = self.conv2(self.relu(self.conv1(inputs.transpose(-1, -2))))
        return self.dropout(out.transpose(-1, -2)) + inputs


class ItemSelfAttention(nn.Module):
    """Each item looks at the items that the user bought before it."""

    def __init__(self, hidden_units, num_heads, dropout_rate=0.2):
        super().__init__()
        self.mha = nn.MultiheadAttention(hidden_units, num_heads, dropout=dropout_rate, batch_first=True)

    def forward(self, seqs, timeline_mask=None):
        tl = seqs.shape[1]
        attention_mask = ~torch.tril(torch.ones((tl, tl), dtype=torch.bool, device=seqs.device))
        out, _ = self.mha(
            seqs, seqs, seqs, attn_mask=attention_mask, key_padding_mask=timeline_mask, need_weights=False
        )
        return out


class SASRec(torch.nn.Module):
    def __init__(self, user_num, item_num, args):
        super(SASRec, self).__init__()
        self.item_emb = nn.Embedding(item_num + 1, args.hidden_units, padding_idx=0)
        self.pos_emb = nn.Embedding(args.maxlen, args.hidden_units)
        self.attention_layers = nn.ModuleList()
        self.forward_layers = nn.ModuleList()
        for _ in range(args.num_blocks):
            self.attention_layers.append(ItemSelfAttention(args.hidden_units, args.num_heads, args.dropout_rate))
            self.forward_layers.append(PointWiseFeedForward(args.hidden_units, args.dropout_rate))

    def log2feats(self, log_seqs):
        seqs = self.item_emb(torch.LongTensor(log_seqs)) * self.item_emb.embedding_dim ** 0.5
        seqs = seqs + self.pos_emb(torch.arange(log_seqs.shape[1]))
        for att, ffn in zip(self.attention_layers, self.forward_layers):
            seqs = seqs + att(seqs)
            seqs = ffn(seqs)
        return seqs


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--batch_size", default=128, type=int)
    parser.add_argument("--maxlen", default=50, type=int)
    parser.add_argument("--hidden_units", default=50, type=int)
    parser.add_argument("--num_blocks", default=2, type=int)
    parser.add_argument("--num_heads", default=1, type=int)
    parser.add_argument("--dropout_rate", default=0.2, type=float)
    args = parser.parse_args()
    dataset = data_partition(args.dataset)
    sampler = WarpSampler(*dataset, batch_size=args.batch_size, maxlen=args.maxlen)
    model = SASRec(dataset[3], dataset[4], args)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    for epoch in range(200):
        u, seq, pos, neg = sampler.next_batch()
        feats = model.log2feats(np.array(seq))
