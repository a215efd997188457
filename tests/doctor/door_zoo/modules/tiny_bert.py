import json
import math

import torch
import torch.nn as nn


class BertConfig(object):
    """Sizes of the model, read from a json file."""

    def __init__(self, hidden_size=128, num_attention_heads=2, hidden_dropout_prob=0.1,
                 attention_probs_dropout_prob=0.1, **others):
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.__dict__.update(others)

    @classmethod
    def from_json_file(cls, path):
        with open(path, "r", encoding="utf-8") as reader:
            return cls(**json.load(reader))


class TinyBertAttention(nn.Module):
    def __init__(self, config):
        super(TinyBertAttention, self).__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads

        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.attn_dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.out_dropout = nn.Dropout(config.hidden_dropout_prob)

    def transpose_for_scores(self, x):
        new_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(*new_shape).permute(0, 2, 1, 3)

    def forward(self, input_tensor, attention_mask=None):
        # attention_mask is 0 for tokens to read and -10000 for padding, (b, 1, 1, n)
        query = self.transpose_for_scores(self.query(input_tensor))
        key = self.transpose_for_scores(self.query(input_tensor))
        value = self.transpose_for_scores(self.value(input_tensor))

        scores = torch.matmul(query, key.transpose(-1, -2))
        scores = scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            scores = scores + attention_mask
        probs = self.attn_dropout(nn.Softmax(dim=-1)(scores))

        context = torch.matmul(probs, value).permute(0, 2, 1, 3)
        context = context.reshape(input_tensor.size())
        return self.out_dropout(self.dense(context))
