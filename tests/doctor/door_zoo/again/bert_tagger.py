# coding: utf-8
"""A BERT-like tagger for named entities."""
import random
import sys

import numpy as np
import torch
import torch.nn as nn
from seqeval.metrics import f1_score
from torchcrf import CRF

MAX_LEN = 128
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"]


class ScaledDotProductAttention(nn.Module):
    def __init__(self, d_k):
        super(ScaledDotProductAttention, self).__init__()
        self.d_k = d_k

    def forward(self, Q, K, V, attn_mask=None):
        scores = torch.matmul(Q, K.transpose(-1, -2)) / np.sqrt(self.d_k)
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, -1e9)  # True: padding
        attn = nn.Softmax(dim=-1)(scores)
        return torch.matmul(attn, V)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super(MultiHeadAttention, self).__init__()
        self.d_model = d_model
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.dot = ScaledDotProductAttention(self.d_k)
        self.fc = nn.Linear(d_model, d_model)

    def forward(self, Q, K, V, attn_mask=None):
        # attn_mask (batch, len_q, len_k)
        batch_size = Q.size(0)
        q_s = self.W_Q(Q).view(batch_size, self.n_heads, -1, self.d_k)
        k_s = self.W_K(K).view(batch_size, self.n_heads, -1, self.d_k)
        v_s = self.W_V(V).view(batch_size, self.n_heads, -1, self.d_k)
        if attn_mask is not None:
            attn_mask = attn_mask.unsqueeze(1).repeat(1, self.n_heads, 1, 1)
        context = self.dot(q_s, k_s, v_s, attn_mask)
        context = context.transpose(1, 2).contiguous().view(batch_size, -1, self.n_heads * self.d_k)
        return self.fc(context)


class EncoderLayer(nn.Module):
    def __init__(self, d_model=256, n_heads=4):
        super(EncoderLayer, self).__init__()
        self.enc_self_attn = MultiHeadAttention(d_model, n_heads)
        self.norm = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, mask):
        x = self.norm(x + self.enc_self_attn(x, x, x, mask))
        return self.norm(x + self.ffn(x))


class Tagger(nn.Module):
    def __init__(self, vocab):
        super(Tagger, self).__init__()
        self.emb = nn.Embedding(vocab, 256, padding_idx=0)
        self.enc = nn.ModuleList([EncoderLayer() for _ in range(4)])
        self.crf = CRF(len(TAGS), batch_first=True)
        self.out = nn.Linear(256, len(TAGS))

    def forward(self, ids, tags):
        pad = ids.eq(0).unsqueeze(1).expand(-1, ids.size(1), -1)
        x = self.emb(ids)
        for layer in self.enc:
            x = layer(x, pad)
        return -self.crf(self.out(x), tags, mask=ids.ne(0))


if __name__ == "__main__":
    random.seed(0)
    model = Tagger(int(sys.argv[1]))
    print(model)
