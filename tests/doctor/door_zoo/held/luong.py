from __future__ import unicode_literals, print_function, division
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SOS_token = 0
EOS_token = 1
MAX_LENGTH = 12
USE_CUDA = torch.cuda.is_available()
device = torch.device("cuda" if USE_CUDA else "cpu")


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size, n_layers=1, dropout=0.1):
        super(EncoderRNN, self).__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, n_layers, bidirectional=True,
                          dropout=0 if n_layers == 1 else dropout)

    def forward(self, input_seqs, hidden=None):
        outputs, hidden = self.gru(self.embedding(input_seqs), hidden)
        # sum of both directions
        outputs = outputs[..., :self.hidden_size] + outputs[..., self.hidden_size:]
        return outputs, hidden


class LuongAttention(nn.Module):
    """Weights of the encoder steps for one decoder step ("dot" or "general")."""

    def __init__(self, method, hidden_size):
        super(LuongAttention, self).__init__()
        if method not in ('dot', 'general'):
            raise ValueError(method, "is not a score function")
        self.method = method
        if method == 'general':
            self.attn = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden, encoder_outputs):
        # hidden: 1 x B x H, encoder_outputs: S x B x H
        keys = encoder_outputs
        if self.method == 'general':
            keys = self.attn(keys)
        energies = torch.sum(hidden * keys, dim=2).t()   # B x S
        weights = F.softmax(energies, dim=1).unsqueeze(1)
        context = weights.bmm(encoder_outputs.transpose(0, 1))
        return context, weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, method='general'):
        super(AttnDecoderRNN, self).__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.attn = LuongAttention(method, hidden_size)
        self.concat = nn.Linear(hidden_size * 2, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, step, last_hidden, encoder_outputs):
        rnn_output, hidden = self.gru(self.embedding(step).unsqueeze(0), last_hidden)
        context, weights = self.attn(rnn_output, encoder_outputs)
        both = torch.cat((rnn_output.squeeze(0), context.squeeze(1)), 1)
        return self.out(torch.tanh(self.concat(both))), hidden, weights


def evaluate(encoder, decoder, seq, forcing=0.0):
    with torch.no_grad():
        enc, hidden = encoder(seq)
        hidden = hidden[:1]
        step = torch.full((seq.size(1),), SOS_token, device=device)
        words = []
        for _ in range(MAX_LENGTH):
            logits, hidden, _ = decoder(step, hidden, enc)
            step = logits.argmax(1) if random.random() >= forcing else step
            words.append(step)
        return torch.stack(words)
