import math
import logging

import torch
from torch import nn
from tensorboardX import SummaryWriter

logger = logging.getLogger(__name__)


class DotProductCore(nn.Module):
    """Core of the attention layers: no parameters, only the arithmetic.

    Shape of query, key and value: (batch, n_heads, len, head_size)
    mask (batch, 1, 1, len) or (batch, 1, len, len), True where attention is allowed
    """

    def __init__(self, dropout: float = 0.1):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        batch, n_heads, head_size, _ = k.size()
        score = q @ k.transpose(2, 3) / math.sqrt(head_size)
        if mask is not None:
            score = score.masked_fill(~mask.bool(), -10000.0)
        score = self.dropout(self.softmax(score))
        return score @ v


class WarmupSchedule:
    def __init__(self, optimizer, d_model, warmup=4000):
        self.optimizer = optimizer
        self.d_model = d_model
        self.warmup = warmup
        self.n = 0

    def step(self):
        self.n += 1
        lr = self.d_model ** -0.5 * min(self.n ** -0.5, self.n * self.warmup ** -1.5)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return lr


def log_heads(writer: "SummaryWriter", score: torch.Tensor, step: int):
    for h in range(score.size(1)):
        writer.add_image(f"head/{h}", score[0, h:h + 1], step)
    logger.info("wrote %d heads at step %d", score.size(1), step)
