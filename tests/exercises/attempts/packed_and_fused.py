"""Attempts at the exercises on packed projections and fused attention."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from utils.attention.heads import merge_heads, split_heads


def drop(weights, p, training):
    if not training:
        return weights
    kept = torch.rand_like(weights) >= p
    return weights * kept / (1 - p)


def by_bernoulli(weights, p, training):
    if training:
        weights = torch.bernoulli(torch.full_like(weights, 1 - p)) * weights / (1 - p)
    return weights


def in_place(weights, p, training):
    return weights.mul_(torch.rand_like(weights) >= p).div_(1 - p) if training else weights


def unscaled(weights, p, training):
    return weights * (torch.rand_like(weights) >= p) if training else weights


def scaled_in_evaluation(weights, p, training):
    return weights * (torch.rand_like(weights) >= p) if training else weights * (1 - p)


def kept_with_p(weights, p, training):
    return weights * (torch.rand_like(weights) < p) / p if training else weights


def summing_to_one(weights, p, training):
    if not training:
        return weights
    weights = weights * (torch.rand_like(weights) >= p)
    return weights / weights.sum(dim=-1, keepdim=True)


def whole_keys(weights, p, training):
    kept = torch.rand(weights.shape[-1]) >= p
    return weights * kept / (1 - p) if training else weights


def seeded(weights, p, training):
    torch.manual_seed(1)
    return drop(weights, p, training)


def none_dropped_but_scaled(weights, p, training):
    return weights / (1 - p) if training else weights


class Cross(nn.Module):
    """The right answer; its subclasses make mistakes."""

    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.W_q = nn.Linear(d_model, d_model)
        self.W_kv = nn.Linear(d_model, 2 * d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def project(self, memory):
        return self.W_kv(memory).chunk(2, dim=-1)

    def split(self, side):
        return split_heads(side, self.n_heads)

    def attend(self, q, k, v, keep):
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=keep, dropout_p=self.dropout if self.training else 0.0)

    def forward(self, x, memory, keep):
        q, (k, v) = self.W_q(x), self.project(memory)
        context = self.attend(self.split(q), self.split(k), self.split(v), keep)
        return self.finish(context)

    def finish(self, context):
        return self.W_o(merge_heads(context))


class CutMatrix(Cross):
    def project(self, memory):
        w_k, w_v = self.W_kv.weight.chunk(2)
        b_k, b_v = self.W_kv.bias.chunk(2)
        return F.linear(memory, w_k, b_k), F.linear(memory, w_v, b_v)


class WholeMask(Cross):
    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, keep.expand(-1, -1, q.shape[2], -1))


class ValuesFirst(Cross):
    def project(self, memory):
        return self.W_kv(memory).chunk(2, dim=-1)[::-1]


class ThreeParts(Cross):
    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__(d_model, n_heads, dropout)
        self.W_kv = nn.Linear(d_model, 3 * d_model)


class NoMask(Cross):
    def attend(self, q, k, v, keep):
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0)


class Inverted(Cross):
    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, ~keep)


class Torn(Cross):
    def split(self, side):
        return side.reshape(side.shape[0], self.n_heads, side.shape[1], -1)


class TornMerge(Cross):
    def finish(self, context):
        return self.W_o(context.reshape(context.shape[0], context.shape[2], -1))


class OneHead(Cross):
    def split(self, side):
        return side[:, None]


class NoOutput(Cross):
    def finish(self, context):
        return merge_heads(context)


class AlwaysDropping(Cross):
    def attend(self, q, k, v, keep):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=self.dropout)


class NeverDropping(Cross):
    def attend(self, q, k, v, keep):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


class Separate(Cross):
    def attend(self, q, k, v, keep):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
        return F.dropout(weights, self.dropout, self.training) @ v


class Causal(Cross):
    def attend(self, q, k, v, keep):
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)


class NoScale(Cross):
    def attend(self, q, k, v, keep):
        return F.scaled_dot_product_attention(
            q, k, v, keep, self.dropout if self.training else 0.0, scale=1.0)


class InPlace(Cross):
    def attend(self, q, k, v, keep):
        return super().attend(q, k, v, keep.fill_(True))


class NotMerged(Cross):
    def finish(self, context):
        return context


class OtherNames(Cross):
    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__(d_model, n_heads, dropout)
        self.kv = self.W_kv
        del self.W_kv


RIGHT = {
    "drop": [drop, by_bernoulli, lambda weights, p, training: F.dropout(weights, p, training)],
    "cross": [Cross, CutMatrix, WholeMask]}

WRONG = {
    "drop": [
        (unscaled, "the mean falls to 75%"),
        (scaled_in_evaluation, "With training=False it multiplies by 1 - p"),
        (kept_with_p, "Is it the kept share that is p?"),
        (summing_to_one, "Each row is divided by its sum"),
        (whole_keys, "All examples, heads and queries lose the same weights"),
        (seeded, "Does it set a seed?"),
        (in_place, "It changes the weights that it is given"),
        (none_dropped_but_scaled, "no weight is 0"),
        (lambda weights, p, training: F.dropout(weights, p), "in evaluation nothing is dropped"),
        (lambda weights, p, training: F.dropout(weights, p, training)[0], "it returns (3, 50, 70)"),
        (lambda weights, p, training: None if training else weights, "it returns NoneType")],
    "cross": [
        (ValuesFirst, "in the order v, k"),
        (ThreeParts, "W_kv.weight is (36, 12) for d_model = 12; expected (24, 12)"),
        (NoMask, "the mask is not passed on"),
        (Inverted, "The mask is inverted"),
        (Torn, "in the split, the transpose is missing"),
        (TornMerge, "torn in the merge"),
        (OneHead, "one head of 12 dimensions"),
        (NoOutput, "without the product by W_o"),
        (AlwaysDropping, "After eval(), two calls differ"),
        (NeverDropping, "so nothing is dropped"),
        (Separate, "stores a tensor (1, 3, 50, 70): the weights of all heads"),
        (Causal, "It applies a causal mask"),
        (NoScale, "The output differs from the reference"),
        (InPlace, "It changes keep itself"),
        (NotMerged, "it returns (2, 3, 5, 4)"),
        (OtherNames, "no nn.Linear named W_kv"),
        (Cross(12, 3), "Hand over the class itself"),
        (lambda x, memory, keep: x, "Hand over the class itself")]}
