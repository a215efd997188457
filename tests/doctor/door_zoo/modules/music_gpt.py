import math

import torch
import torch.nn as nn
import torch.nn.functional as F

try:
    import pretty_midi
except ImportError:
    pretty_midi = None

MAX_EVENTS = 512


class EventSelfAttention(nn.Module):
    """Masked self-attention over a stream of MIDI events."""

    def __init__(self, embed_dim, num_heads, max_len=MAX_EVENTS, dropout=0.1):
        super().__init__()
        assert embed_dim % num_heads == 0, "embed_dim must be divisible by num_heads"
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.attn_dropout = nn.Dropout(dropout)
        self.out_dropout = nn.Dropout(dropout)
        # lower triangle: an event can only see what was played before
        allowed = torch.tril(torch.ones(max_len, max_len), diagonal=1).bool()
        self.register_buffer("allowed", allowed)

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, t, self.num_heads, -1).transpose(1, 2)
        k = k.view(b, t, self.num_heads, -1).transpose(1, 2)
        v = v.view(b, t, self.num_heads, -1).transpose(1, 2)

        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~self.allowed[:t, :t], float("-inf"))
        weights = self.attn_dropout(F.softmax(scores, dim=-1))

        y = (weights @ v).transpose(1, 2).reshape(b, t, e)
        return self.out_dropout(self.out(y))


def midi_to_events(path, resolution=0.05):
    song = pretty_midi.PrettyMIDI(path)
    events = []
    for note in sorted(song.instruments[0].notes, key=lambda n: n.start):
        shift = int(note.start / resolution)
        events.append((shift, note.pitch, note.velocity // 8))
    return events


@torch.no_grad()
def sample(model, head, embed, start, steps=64, temperature=1.0):
    ids = start
    for _ in range(steps):
        h = model(embed(ids[:, -MAX_EVENTS:]))
        probs = F.softmax(head(h[:, -1]) / temperature, dim=-1)
        ids = torch.cat([ids, torch.multinomial(probs, 1)], dim=1)
    return ids
