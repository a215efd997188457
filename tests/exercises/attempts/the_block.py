"""Attempts at the exercises on the block."""

import torch.nn.functional as F
from torch import nn

from utils.models.ladder import (
    Attention,
    Block,
    CharacterModel,
    RotaryAttention,
    transformer,
)


def by_hand(x, gain, bias, dim=-1, eps=1e-5, correction=0):
    mean = x.mean(dim=dim, keepdim=True)
    variance = x.var(dim=dim, keepdim=True, correction=correction)
    return (x - mean) / (variance + eps).sqrt() * gain + bias


def by_library(x, gain, bias):
    return F.layer_norm(x, (x.shape[-1],), gain, bias)


def by_mean_of_squares(x, gain, bias):
    x = x - x.mean(-1, keepdim=True)
    return bias + gain * x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


def in_place(x, gain, bias):
    x -= x.mean(dim=-1, keepdim=True)
    return x / x.std(dim=-1, keepdim=True, correction=0) * gain + bias


def rms(x, gain, bias):
    return F.rms_norm(x, x.shape[-1:]) * gain + bias


def no_mean(x, gain, bias):
    return x / x.std(dim=-1, keepdim=True, correction=0) * gain + bias


def variance(x, gain, bias):
    return (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, correction=0) * gain + bias


def listed(n_tokens, d_model, n_heads, n_blocks):
    blocks = []
    for _ in range(n_blocks):
        blocks.append(Block(RotaryAttention(d_model, n_heads), d_model))
    return CharacterModel(n_tokens, d_model, *blocks, nn.LayerNorm(d_model))


def own_block():
    """Return a right answer with a Block that the page, and not the module, defines."""
    class Own(Block):
        pass
    Own.__name__ = "Block"

    def answer(n_tokens, d_model, n_heads, n_blocks):
        blocks = [Own(RotaryAttention(d_model, n_heads), d_model) for _ in range(n_blocks)]
        return CharacterModel(n_tokens, d_model, *blocks, nn.LayerNorm(d_model))
    return answer


def stack(attention=RotaryAttention, norm=True, blocks=None, between=False):
    """Return a right answer, or one with a mistake."""
    def answer(n_tokens, d_model, n_heads, n_blocks):
        parts = []
        for _ in range(n_blocks if blocks is None else blocks):
            parts.append(Block(attention(d_model, n_heads), d_model))
            if between:
                parts.append(nn.LayerNorm(d_model))
        return CharacterModel(n_tokens, d_model, *parts, *[nn.LayerNorm(d_model)] * norm)
    return answer


def repeated(n_tokens, d_model, n_heads, n_blocks):
    blocks = [Block(RotaryAttention(d_model, n_heads), d_model)] * n_blocks
    return CharacterModel(n_tokens, d_model, *blocks, nn.LayerNorm(d_model))


def one_attention(n_tokens, d_model, n_heads, n_blocks):
    attention = RotaryAttention(d_model, n_heads)
    blocks = [Block(attention, d_model) for _ in range(n_blocks)]
    return CharacterModel(n_tokens, d_model, *blocks, nn.LayerNorm(d_model))


def norm_first(n_tokens, d_model, n_heads, n_blocks):
    blocks = [Block(RotaryAttention(d_model, n_heads), d_model) for _ in range(n_blocks)]
    return CharacterModel(n_tokens, d_model, nn.LayerNorm(d_model), *blocks)


RIGHT = {
    "layer_norm": [by_hand, by_library, by_mean_of_squares],
    "parameters": [lambda d: 12 * d**2 + 13 * d,
                   lambda d: 4 * (d * d + d) + d * 4 * d + 4 * d + 4 * d * d + d + 2 * 2 * d,
                   lambda d: sum(p.numel() for p in Block(Attention(d, 2), d).parameters())],
    "stack": [listed, stack(), transformer, own_block()],
}
WRONG = {
    "layer_norm": [
        (lambda x, gain, bias: by_hand(x, gain, bias, dim=1), "over the positions (dim=1)"),
        (lambda x, gain, bias: by_hand(x, gain, bias, dim=0), "over the batch (dim=0)"),
        (lambda x, gain, bias: by_hand(x, gain, bias, dim=(1, 2)), "all positions of an example"),
        (lambda x, gain, bias: by_hand(x, gain, bias, dim=(0, 1, 2)), "for the whole array"),
        (lambda x, gain, bias: by_hand(x, gain, bias, correction=1), "divides by e − 1"),
        (lambda x, gain, bias: by_hand(x, gain, bias, eps=0), "its standard deviation is 0"),
        (lambda x, gain, bias: by_hand(x, 1, 0), "gain and bias are not used"),
        (lambda x, gain, bias: by_hand(x, gain, 0), "bias is not added"),
        (lambda x, gain, bias: by_hand(x, 1, bias), "gain is not used"),
        (lambda x, gain, bias: (by_hand(x, 1, 0) + bias) * gain, "gain first"),
        (lambda x, gain, bias: x.softmax(dim=-1), "The numbers are wrong"),
        (lambda x, gain, bias: x.mean(dim=-1), "must return a tensor (3, 5, 12), not (3, 5)"),
        (in_place, "changes x in place"), (rms, "RMSNorm"), (no_mean, "mean is not subtracted"),
        (variance, "Its square root is missing")],
    "parameters": [
        (lambda d: 12 * d * d, "Each nn.Linear has a bias"),
        (lambda d: 12 * d * d + 9 * d, "The norms are missing"),
        (lambda d: 12 * d * d + 11 * d, "a gain *and* a bias"),
        (lambda d: 12 * d * d + 4 * d, "biases of the linear layers"),
        (lambda d: 8 * d * d + 9 * d, "One of the two matrices"),
        (lambda d: 11 * d * d + 12 * d, "four matrices"),
        (lambda d: 4 * d * d + 4 * d, "attention alone"),
        (lambda d: 8 * d * d + 5 * d, "feed-forward layer alone"),
        (lambda d: 12 * 64 * 64 + 13 * 64, "For d_model = 12 it returns 49984"),
        (lambda d: 7, "For d_model = 64 it returns 7")],
    "stack": [
        (repeated, "All blocks are one object"), (one_attention, "share one attention layer"),
        (stack(attention=Attention), "knows no positions"),
        (stack(attention=lambda d, h: nn.Linear(d, d)), "must be a RotaryAttention"),
        (stack(norm=False), "The last norm is missing"),
        (stack(between=True), "There are 5 layers besides the blocks"),
        (norm_first, "After the last block"),
        (stack(blocks=1), "layers is 1"), (stack(blocks=4), "n_blocks is not used"),
        (lambda n, d, h, b: stack()(n, d, 1, b), "With n_heads = 3, the model has 1"),
        (lambda n, d, h, b: stack()(n, 24, h, b), "With d_model = 12, the model has 24"),
        (lambda n, d, h, b: stack()(9, d, h, b), "With n_tokens = 7, the model has 9"),
        (lambda n, d, h, b: nn.Sequential(*stack()(n, d, h, b).layers), "not Sequential")],
}
