import glob
import os
import random

import numpy as np
import pretty_midi
import torch
import torch.nn as nn
from torch import einsum
from einops import rearrange

RANGE_NOTE_ON = 128
RANGE_NOTE_OFF = 128
RANGE_TIME_SHIFT = 100
TOKEN_PAD = RANGE_NOTE_ON + RANGE_NOTE_OFF + RANGE_TIME_SHIFT


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)))

    def forward(self, t, start=0):
        # t (b, h, n, d)
        pos = torch.arange(start, start + t.shape[-2], device=t.device, dtype=self.inv_freq.dtype)
        freqs = einsum("i, j -> i j", pos, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        return t * emb.cos() + rotate_half(t) * emb.sin()


class RotarySelfAttention(nn.Module):
    def __init__(self, dim, heads=8, dropout=0.1):
        super().__init__()
        self.heads = heads
        dim_head = dim // heads
        self.scale = dim_head ** -0.5
        self.rotary = Rotary(dim_head)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.attn_dropout = nn.Dropout(dropout)

    def forward(self, x):
        n, h = x.shape[1], self.heads
        q, k, v = map(lambda t: rearrange(t, "b n (h d) -> b h n d", h=h), self.to_qkv(x).chunk(3, dim=-1))

        # the query stands for the event that is predicted next
        q = self.rotary(q, start=1)
        k = self.rotary(k)

        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        sim = sim.masked_fill(causal, -torch.finfo(sim.dtype).max)
        attn = self.attn_dropout(sim.softmax(dim=-1))
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))


def decode_midi(path):
    mid = pretty_midi.PrettyMIDI(path)
    events = []
    for inst in mid.instruments:
        for note in inst.notes:
            events.append((note.start, note.pitch))
            events.append((note.end, RANGE_NOTE_ON + note.pitch))
    return [e for _, e in sorted(events)]


class MusicTransformer(nn.Module):
    def __init__(self, dim=256, depth=6, heads=8, max_seq=2048):
        super().__init__()
        self.emb = nn.Embedding(TOKEN_PAD + 1, dim, padding_idx=TOKEN_PAD)
        self.attns = nn.ModuleList([RotarySelfAttention(dim, heads) for _ in range(depth)])
        self.out = nn.Linear(dim, TOKEN_PAD)

    def forward(self, x):
        x = self.emb(x)
        for attn in self.attns:
            x = x + attn(x)
        return self.out(x)
