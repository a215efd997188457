import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchaudio
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SOS, EOS, PAD = 0, 1, 2


class pBLSTM(nn.Module):
    """Halves the time axis."""

    def __init__(self, input_dim, hidden_dim):
        super().__init__()
        self.blstm = nn.LSTM(input_dim * 2, hidden_dim, bidirectional=True, batch_first=True)

    def forward(self, x, lengths):
        x = x[:, : x.size(1) // 2 * 2]
        x = x.reshape(x.size(0), x.size(1) // 2, x.size(2) * 2)
        packed = pack_padded_sequence(x, lengths // 2, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.blstm(packed)[0], batch_first=True)
        return out, lengths // 2


class DotAttention(nn.Module):
    """Speller states (B, U, D) attend over listener states (B, T, D)."""

    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=1)

    def forward(self, query, key, value, mask=None):
        # mask (B, U, T): True for the frames of padding
        energy = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(-1))
        if mask is not None:
            energy = energy.masked_fill(mask, -1e9)
        attention = self.softmax(energy)
        context = torch.bmm(attention, value)
        return context, attention


class Speller(nn.Module):
    def __init__(self, vocab_size, embed_dim, hidden_dim, enc_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim, padding_idx=PAD)
        self.lstm = nn.LSTM(embed_dim, hidden_dim, num_layers=2, batch_first=True)
        self.key = nn.Linear(enc_dim, hidden_dim)
        self.value = nn.Linear(enc_dim, hidden_dim)
        self.attention = DotAttention()
        self.character_prob = nn.Linear(2 * hidden_dim, vocab_size)

    def forward(self, y, enc, enc_lens):
        h, _ = self.lstm(self.embedding(y))
        pad = torch.arange(enc.size(1), device=enc.device)[None] >= enc_lens[:, None]
        ctx, att = self.attention(h, self.key(enc), self.value(enc), pad.unsqueeze(1).expand(-1, y.size(1), -1))
        return self.character_prob(torch.cat([h, ctx], dim=-1)), att


def load_wave(path):
    wave, rate = torchaudio.load(path)
    return torchaudio.compliance.kaldi.fbank(wave, num_mel_bins=80, sample_frequency=rate)
