import torch
import torch.nn as nn
import torch.nn.functional as F
import math
from torch.autograd import Variable


def nopeak_mask(size):
    ones = torch.ones(1, size, size)
    return Variable(torch.tril(ones).bool())


def create_masks(src, trg, src_pad=1, trg_pad=1):
    src_mask = (src != src_pad).unsqueeze(-2)
    if trg is None:
        return src_mask, None
    trg_mask = (trg != trg_pad).unsqueeze(-2)
    trg_mask = trg_mask & nopeak_mask(trg.size(1)).to(trg.device)
    return src_mask, trg_mask


# q, k, v are N x heads x len x d_k; mask is N x 1 x len or N x len x len (0 = padding)
def attention(q, k, v, d_k, mask=None, dropout=None):

    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_k)

    if mask is not None:
        mask = mask.unsqueeze(1)
        scores = scores.masked_fill(mask == 0, 0)

    scores = F.softmax(scores, dim=-1)

    if dropout is not None:
        scores = dropout(scores)

    output = torch.matmul(scores, v)
    return output


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff=1024, dropout=0.1):
        super().__init__()
        self.linear_1 = nn.Linear(d_model, d_ff)
        self.dropout = nn.Dropout(dropout)
        self.linear_2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear_2(self.dropout(F.relu(self.linear_1(x))))
