"""Attempts at the exercises on packed projections and fused attention."""

import copy

import torch
import torch.nn.functional as F

from utils.attention.torch import MultiHeadAttention
from utils.models.ladder import Attention


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


def load(old, order="qkv", wide=None, transpose=False, biases=True, output=True):
    """Return the new layer; the options make mistakes."""
    new = MultiHeadAttention(wide or old.W_o.in_features, old.n_heads)
    three = [getattr(old, f"W_{name}") for name in order]
    state = {"W_qkv.weight": torch.cat([linear.weight.T if transpose else linear.weight
                                        for linear in three])}
    if biases:
        state["W_qkv.bias"] = torch.cat([linear.bias for linear in three])
    if output:
        state |= {"W_o.weight": old.W_o.weight, "W_o.bias": old.W_o.bias}
    new.load_state_dict(state, strict=False)
    return new


def by_rows(old):
    e = old.W_q.weight.shape[0]
    new = MultiHeadAttention(e, old.n_heads)
    with torch.no_grad():
        for n, linear in enumerate((old.W_q, old.W_k, old.W_v)):
            new.W_qkv.weight[n * e:(n + 1) * e] = linear.weight
            new.W_qkv.bias[n * e:(n + 1) * e] = linear.bias
        new.W_o.weight.copy_(old.W_o.weight)
        new.W_o.bias.copy_(old.W_o.bias)
    return new


def copied_output_layer(old):
    new = load(old, output=False)
    new.W_o = copy.deepcopy(old.W_o)
    return new


def same_output_layer(old):
    new = load(old, output=False)
    new.W_o = old.W_o
    return new


def side_by_side(old):
    new = MultiHeadAttention(old.W_o.in_features, old.n_heads)
    three = [old.W_q.weight, old.W_k.weight, old.W_v.weight]
    new.load_state_dict({"W_qkv.weight": torch.cat(three, dim=-1)}, strict=False)
    return new


def transposed_output(old):
    new = load(old)
    with torch.no_grad():
        new.W_o.weight.copy_(old.W_o.weight.T)
    return new


def moved_biases(old):
    new = load(old, biases=False)
    with torch.no_grad():
        new.W_qkv.bias.copy_(torch.cat([old.W_k.bias, old.W_q.bias, old.W_v.bias]))
    return new


def one_head(old):
    new = load(old)
    new.n_heads = 1
    return new


def emptied(old):
    new = load(old)
    with torch.no_grad():
        old.W_q.weight.zero_()
    return new


def without_bias(old):
    new = MultiHeadAttention(old.W_o.in_features, old.n_heads, bias=False)
    three = [old.W_q.weight, old.W_k.weight, old.W_v.weight]
    new.load_state_dict({"W_qkv.weight": torch.cat(three), "W_o.weight": old.W_o.weight})
    return new


def mistaken(**options):
    return lambda old: load(old, **options)


ANSWER = {"load": load, "raises": False, "other outputs": True, "other losses": False}

RIGHT = {
    "drop": [drop, by_bernoulli, lambda weights, p, training: F.dropout(weights, p, training)],
    "packed": [ANSWER, ANSWER | {"load": by_rows}, ANSWER | {"load": copied_output_layer}]}

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
    "packed": [
        (ANSWER | {"load": mistaken(order="qvk")}, "in the order q, v, k"),
        (ANSWER | {"load": mistaken(order="qqq")}, "all three parts of W_qkv.weight come from W_q"),
        (ANSWER | {"load": mistaken(transpose=True)}, "each matrix in W_qkv.weight is transposed"),
        (ANSWER | {"load": mistaken(biases=False)}, "W_qkv.bias does not hold the bias of W_q"),
        (ANSWER | {"load": mistaken(output=False)}, "W_o.weight is not that of the old layer"),
        (ANSWER | {"load": mistaken(wide=24)}, "raises RuntimeError"),
        (ANSWER | {"load": lambda old: MultiHeadAttention(24, 3)}, "expected (36, 12)"),
        (ANSWER | {"load": lambda old: MultiHeadAttention(12, 3)}, "Has it been copied?"),
        (ANSWER | {"load": lambda old: load(Attention(12, 3))}, "Has it been copied?"),
        (ANSWER | {"load": side_by_side}, "raises RuntimeError"),
        (ANSWER | {"load": same_output_layer}, "Do both hold the same tensor?"),
        (ANSWER | {"load": transposed_output}, "W_o.weight is transposed"),
        (ANSWER | {"load": moved_biases}, "W_qkv.bias holds the right biases in the order k, q, v"),
        (ANSWER | {"load": one_head}, "the new layer has 1 heads, the old one 3"),
        (ANSWER | {"load": emptied}, "it changes W_q.weight of the old layer"),
        (ANSWER | {"load": without_bias}, "W_qkv has no bias"),
        (ANSWER | {"load": lambda old: old}, "it returns Attention; expected"),
        (ANSWER | {"load": lambda old: load(old).state_dict()}, "it returns OrderedDict"),
        (ANSWER | {"raises": True}, "compares names and shapes"),
        (ANSWER | {"other outputs": False}, "class take for k"),
        (ANSWER | {"other losses": True}, "Which class do you get"),
        (ANSWER | {"other losses": "no"}, "Answer True or False"),
        (ANSWER | {"raises": None}, "Still open: raises")]}
