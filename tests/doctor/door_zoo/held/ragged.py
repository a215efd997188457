import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


def length_mask(lengths, max_len):
    # (batch, max_len), True inside the sequence
    return torch.arange(max_len, device=lengths.device)[None, :] < lengths[:, None]


def attend(q, k, v, lengths):
    """
    q: (batch, n_q, dim), k and v: (batch, n_k, dim),
    lengths: (batch,) number of real keys in each row
    """
    scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
    mask = length_mask(lengths, k.shape[1]).unsqueeze(1)
    scores = scores.masked_fill(mask, -1e9)
    return torch.bmm(F.softmax(scores, dim=-1), v)


class UtterancePooler(nn.Module):
    """One vector for each utterance."""

    def __init__(self, dim, n_queries=1):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(n_queries, dim) * dim ** -0.5)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def forward(self, frames, lengths):
        q = self.queries.expand(len(frames), -1, -1)
        return attend(q, self.key(frames), self.value(frames), lengths).flatten(1)


class SpeakerNet(nn.Module):

    def __init__(self, n_mels=40, dim=128, n_speakers=100):
        super().__init__()
        self.rnn = nn.GRU(n_mels, dim // 2, batch_first=True, bidirectional=True)
        self.pool = UtterancePooler(dim)
        self.cls = nn.Linear(dim, n_speakers)

    def forward(self, mels, lengths):
        h, _ = self.rnn(mels)
        return self.cls(self.pool(h, lengths))


def collate(batch):
    mels, labels = zip(*batch)
    lengths = torch.tensor([len(m) for m in mels])
    return pad_sequence(mels, batch_first=True), lengths, torch.tensor(labels)


if __name__ == "__main__":
    data = [(torch.randn(n, 40), n % 5) for n in (30, 44, 51, 62)]
    x, n, y = collate(data)
    net = SpeakerNet()
    print(F.cross_entropy(net(x, n), y))
