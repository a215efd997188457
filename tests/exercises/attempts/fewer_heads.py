"""Attempts at the exercises on fewer heads of keys and values."""

import math

import torch
import torch.nn.functional as F

from utils.attention.grouped import folded_attention, grouped_attention


def bytes_of(layer_numbers, width=2):
    """Return chat_bytes that adds layer_numbers(layer, tokens) and takes width bytes a number."""
    return lambda layers, tokens: width * sum(layer_numbers(layer, tokens) for layer in layers)


def plain(layer, tokens, heads="kv_heads"):
    if "latent" in layer:
        return (layer["latent"] + layer["turned"]) * tokens
    return 2 * layer[heads] * layer["d_head"] * min(tokens, layer["window"] or math.inf)


def windowless(layer, tokens):
    return plain(layer if "latent" in layer else layer | {"window": None}, tokens)


def always_full(layer, tokens):
    return plain(layer, (layer.get("window") or tokens) if "latent" not in layer else tokens)


def largest_window(layer, tokens):
    if layer.get("window") is None:
        return plain(layer, tokens)
    return 2 * layer["kv_heads"] * layer["d_head"] * max(tokens, layer["window"])


def keys_only(layer, tokens):
    return plain(layer, tokens) // (1 if "latent" in layer else 2)


def latent_twice(layer, tokens):
    return plain(layer, tokens) * (2 if "latent" in layer else 1)


def no_turned(layer, tokens):
    return plain(layer | {"turned": 0}, tokens)


def latent_each(layer, tokens):
    return plain(layer, tokens) * (layer["heads"] if "latent" in layer else 1)


def one_layer(layers, tokens):
    return 2 * plain(layers[0], tokens)


def in_a_loop(layers, tokens):
    total = 0
    for layer in layers:
        if layer.get("latent"):
            per_token, seen = layer["latent"] + layer["turned"], tokens
        else:
            per_token = 2 * layer["kv_heads"] * layer["d_head"]
            seen = tokens if layer["window"] is None else min(layer["window"], tokens)
        total += per_token * seen * 2
    return float(total)


def masked(scores, keep):
    return (scores if keep is None else scores.masked_fill(~keep, -math.inf)).softmax(-1)


def by_einsum(q, k, v, keep=None):
    groups = q.unflatten(1, (k.shape[1], -1))
    scores = torch.einsum("bngid,bnjd->bngij", groups, k) / q.shape[-1] ** 0.5
    weights = masked(scores.flatten(1, 2), keep).unflatten(1, (k.shape[1], -1))
    return torch.einsum("bngij,bnjd->bngid", weights, v).flatten(1, 2)


def head_by_head(q, k, v, keep=None):
    group, contexts = q.shape[1] // k.shape[1], []
    shape = (*q.shape[:3], k.shape[2])
    keep = torch.ones(shape, dtype=torch.bool) if keep is None else keep.expand(shape)
    for h in range(q.shape[1]):
        scores = q[:, h] @ k[:, h // group].mT / math.sqrt(q.shape[-1])
        contexts.append(masked(scores, keep[:, h]) @ v[:, h // group])
    return torch.stack(contexts, dim=1)


def by_hand_folded(q, k, v, keep=None):
    b, h, i, d = q.shape
    n, j = k.shape[1:3]
    scores = (q.reshape(b, n, -1, d) / d ** 0.5 @ k.mT).reshape(b, h, i, j)
    return (masked(scores, keep).reshape(b, n, -1, j) @ v).reshape(b, h, i, -1)


def each_repeated(q, k, v, keep=None):
    k, v = (side.repeat_interleave(q.shape[1] // side.shape[1], dim=1) for side in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


def all_tiled(q, k, v, keep=None):
    k, v = (side.repeat(1, q.shape[1] // side.shape[1], 1, 1) for side in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


def by_broadcasting(q, k, v, keep=None):
    groups = q.unflatten(1, (k.shape[1], -1))
    scores = (groups @ k[:, :, None].mT / math.sqrt(q.shape[-1])).flatten(1, 2)
    weights = masked(scores, keep).unflatten(1, (k.shape[1], -1))
    return (weights @ v[:, :, None]).flatten(1, 2)


def expanded(q, k, v, keep=None):
    group = q.shape[1] // k.shape[1]
    k, v = (side[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2) for side in (k, v))
    return masked(q @ k.mT / math.sqrt(q.shape[-1]), keep) @ v


def left_to_torch(q, k, v, keep=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)


def group_first(q, k, v, keep=None):
    groups = q.unflatten(1, (-1, k.shape[1]))
    scores = torch.einsum("bgnid,bnjd->bgnij", groups, k) / q.shape[-1] ** 0.5
    weights = masked(scores.flatten(1, 2), keep).unflatten(1, (-1, k.shape[1]))
    return torch.einsum("bgnij,bnjd->bgnid", weights, v).flatten(1, 2)


def unscaled(q, k, v, keep=None):
    return by_einsum(q * q.shape[-1] ** 0.5, k, v, keep)


def values_repeated(q, k, v, keep=None):
    groups = q.unflatten(1, (k.shape[1], -1))
    scores = torch.einsum("bngid,bnjd->bngij", groups, k) / q.shape[-1] ** 0.5
    return masked(scores.flatten(1, 2), keep) @ v.repeat_interleave(groups.shape[2], dim=1)


def means(W, n_heads, n_kv_heads):
    return W.view(n_kv_heads, n_heads // n_kv_heads, -1, W.shape[-1]).mean(1).flatten(0, 1)


def means_in_a_loop(W, n_heads, n_kv_heads):
    heads, group = W.chunk(n_heads), n_heads // n_kv_heads
    return torch.cat([sum(heads[n * group:(n + 1) * group]) / group for n in range(n_kv_heads)])


def as_before(W, n_heads, n_kv_heads):
    return W.view(n_heads // n_kv_heads, n_kv_heads, -1, W.shape[-1]).mean(0).flatten(0, 1)


def sums(W, n_heads, n_kv_heads):
    return means(W, n_heads, n_kv_heads) * (n_heads // n_kv_heads)


def firsts(W, n_heads, n_kv_heads):
    return W.view(n_kv_heads, n_heads // n_kv_heads, -1, W.shape[-1])[:, 0].flatten(0, 1)


def cut_off(W, n_heads, n_kv_heads):
    return W[:len(W) // n_heads * n_kv_heads]


def rows_mixed(W, n_heads, n_kv_heads):
    return W.view(-1, n_heads // n_kv_heads, W.shape[-1]).mean(1)


def not_flattened(W, n_heads, n_kv_heads):
    return W.view(n_kv_heads, n_heads // n_kv_heads, -1, W.shape[-1]).mean(1)


def in_place(W, n_heads, n_kv_heads):
    W *= 1.5
    return means(W, n_heads, n_kv_heads) / 1.5


def backwards(W, n_heads, n_kv_heads):
    return means(W, n_heads, n_kv_heads).flip(0)


POOLED = {"right for": {1, 6}, "mixed": [0, 2, 4], "pooled": means}

RIGHT = {
    "chat_bytes": [bytes_of(plain), in_a_loop],
    "shared_not_copied": [by_einsum, head_by_head, by_hand_folded, folded_attention],
    "wrong_heads_pooled": [POOLED, POOLED | {"pooled": means_in_a_loop, "right for": [6, 1]},
                           POOLED | {"mixed": {4, 2, 0}}, POOLED | {"mixed": (0, 2, 4)}],
}
WRONG = {
    "chat_bytes": [
        (bytes_of(lambda layer, tokens: plain(layer, tokens, "heads")), "You count the heads of q"),
        (bytes_of(keys_only), "two tensors, not one"),
        (bytes_of(windowless), "You do not use the window"),
        (bytes_of(always_full), "does not fill it"),
        (bytes_of(largest_window), "not the smallest"),
        (bytes_of(latent_twice), "kept once"),
        (bytes_of(no_turned), "rotated dimensions of a latent layer"),
        (bytes_of(latent_each), "All heads share one latent vector"),
        (bytes_of(plain, width=1), "A number has two bytes"),
        (bytes_of(plain, width=4), "A number has two bytes"),
        (bytes_of(windowless, width=4), "You do not use the window. A number has two bytes"),
        (one_layer, "single layers are right: are they added up?"),
        (bytes_of(lambda layer, tokens: plain(layer, tokens + 1)), "With one layer"),
        (bytes_of(lambda layer, tokens: latent_twice(layer, tokens) if "latent" in layer
                  else plain(layer, tokens, "heads")), "You count the heads of q"),
        (lambda layers, tokens: "many", "must return a number of bytes, not str"),
        (lambda layers, tokens: layers["kv_heads"], "It raises TypeError"),
        (bytes_of(plain)([{"latent": 1, "turned": 1}], 2), "asks for a function or a class"),
    ],
    "shared_not_copied": [
        (each_repeated, "3 times"),
        (all_tiled, "tile for repeat"),
        (by_broadcasting, "3 times"),
        (expanded, "3 times"),
        (left_to_torch, "3 times"),
        (grouped_attention, "queries (2, 6, 3, 16)"),
        (values_repeated, "v (2, 2, 500, 24)"),
        (group_first, "tile for repeat"),
        (unscaled, "no scale"),
        (lambda q, k, v, keep: q, "The doctor says"),
        (lambda q, k, v, keep: F.scaled_dot_product_attention(q, k, v), "The doctor says"),
    ],
    "wrong_heads_pooled": [
        (POOLED | {"right for": {6}}, "write view(group, n_kv_heads) down as a matrix"),
        (POOLED | {"mixed": [0, 1, 2]}, "Those should be mixed. Which are"),
        (POOLED | {"mixed": [0, 3]}, "the answer for three new heads"),
        (POOLED | {"mixed": [1, 3, 5]}, "mixed in the second new head"),
        (POOLED | {"mixed": 0}, "puts six heads into three rows"),
        (POOLED | {"pooled": as_before}, "with 2 shared heads, it does the same as the old one"),
        (POOLED | {"pooled": sums}, "the sum of the group"),
        (POOLED | {"pooled": firsts}, "the first head of the group"),
        (POOLED | {"pooled": cut_off}, "ignores the others"),
        (POOLED | {"pooled": rows_mixed}, "it mixes neighbouring rows"),
        (POOLED | {"pooled": not_flattened}, "(8, 5), not (2, 4, 5)"),
        (POOLED | {"pooled": in_place}, "changes the given matrix in place"),
        (POOLED | {"pooled": backwards}, "mean of rows 0, 4, 8"),
        (POOLED | {"pooled": lambda W, n_heads, n_kv_heads: W.mean()}, "not ()"),
        (POOLED | {"pooled": None}, "Still open: pooled"),
        (means, "a dict with the keys"),
    ],
}
