import math
import torch
from torch import nn
from torch.nn import functional as F


def sequence_mask(X, valid_len, value=0.0):
    """Overwrites what lies behind valid_len in each row of X."""
    maxlen = X.size(1)
    mask = torch.arange(maxlen, dtype=torch.float32,
                        device=X.device)[None, :] < valid_len[:, None]
    X[~mask] = value
    return X


def masked_softmax(X, valid_lens):
    """X: 3D tensor, valid_lens: 1D or 2D tensor"""
    if valid_lens is None:
        return F.softmax(X, dim=-1)
    shape = X.shape
    if valid_lens.dim() == 1:
        valid_lens = torch.repeat_interleave(valid_lens, shape[1])
    else:
        valid_lens = valid_lens.reshape(-1)
    X = sequence_mask(X.reshape(-1, shape[-1]), valid_lens, value=-1e-6)
    return F.softmax(X.reshape(shape), dim=-1)


def dot_product_attention(queries, keys, values, valid_lens=None):
    """
    queries: (batch, no. of queries, d)
    keys: (batch, no. of key-value pairs, d)
    values: (batch, no. of key-value pairs, value dimension)
    valid_lens: (batch,) or (batch, no. of queries)
    """
    d = queries.shape[-1]
    scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(d)
    return torch.bmm(masked_softmax(scores, valid_lens), values)


class Seq2SeqEncoder(nn.Module):

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, dropout=0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size, num_hiddens, num_layers, dropout=dropout)

    def forward(self, X):
        return self.rnn(self.embedding(X).permute(1, 0, 2))


def init_seq2seq(module):
    if type(module) is nn.Linear:
        nn.init.xavier_uniform_(module.weight)
    if type(module) is nn.GRU:
        for param in module._flat_weights_names:
            if "weight" in param:
                nn.init.xavier_uniform_(module._parameters[param])


if __name__ == '__main__':
    queries = torch.normal(0, 1, (2, 1, 2))
    keys = torch.normal(0, 1, (2, 10, 2))
    values = torch.normal(0, 1, (2, 10, 4))
    print(dot_product_attention(queries, keys, values, torch.tensor([2, 6])))
