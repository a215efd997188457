"""Attempts at the exercises on what attention costs."""

import math

import torch
import torch.nn.functional as F

from utils.attention.torch import attention, fused_attention


def mask_of(keep, h):
    return None if keep is None else keep[:, h if keep.shape[1] > 1 else 0]


def head_by_head(q, k, v, keep):
    return torch.stack([attention(q[:, h], k[:, h], v[:, h], mask_of(keep, h))[0]
                        for h in range(q.shape[1])], dim=1)


def into_one_tensor(q, k, v, keep):
    context = q.new_empty(*q.shape[:3], v.shape[3])
    for h in range(q.shape[1]):
        mask = None if keep is None else keep.expand(-1, q.shape[1], -1, -1)[:, h]
        context[:, h] = attention(q[:, h], k[:, h], v[:, h], mask)[0]
    return context


def by_hand(q, k, v, keep):
    contexts = []
    for h in range(q.shape[1]):
        scores = q[:, h] @ k[:, h].mT
        scores *= 1 / math.sqrt(q.shape[-1])
        if keep is not None:
            scores = scores.masked_fill(~mask_of(keep, h), -math.inf)
        weights = scores.softmax(dim=-1).nan_to_num()
        contexts.append(weights @ v[:, h])
    return torch.stack(contexts, dim=1)


def one_example_and_head(q, k, v, keep):
    keep = None if keep is None else keep.expand(len(q), q.shape[1], -1, -1)
    return torch.stack([torch.stack([
        attention(q[b, h], k[b, h], v[b, h], None if keep is None else keep[b, h])[0]
        for h in range(q.shape[1])]) for b in range(len(q))])


def all_at_once(q, k, v, keep):
    return attention(q, k, v, keep)[0]


def keeps_the_weights(q, k, v, keep):
    contexts, weights = zip(*(attention(q[:, h], k[:, h], v[:, h], mask_of(keep, h))
                              for h in range(q.shape[1])), strict=True)
    return torch.stack(contexts, dim=1)


def returns_the_weights(q, k, v, keep):
    heads = [attention(q[:, h], k[:, h], v[:, h], mask_of(keep, h)) for h in range(q.shape[1])]
    return tuple(torch.stack(side, dim=1) for side in zip(*heads, strict=True))


def scores_first(q, k, v, keep):
    scores = [q[:, h] @ k[:, h].mT / math.sqrt(q.shape[-1]) for h in range(q.shape[1])]
    contexts = []
    for h, matrix in enumerate(scores):
        mask = mask_of(keep, h)
        if mask is not None:
            matrix = matrix.masked_fill(~mask, -math.inf)
        contexts.append(matrix.softmax(dim=-1).nan_to_num() @ v[:, h])
    return torch.stack(contexts, dim=1)


def forgets_the_mask(q, k, v, keep):
    return head_by_head(q, k, v, None)


def mask_of_head_0(q, k, v, keep):
    return torch.stack([attention(q[:, h], k[:, h], v[:, h], None if keep is None else keep[:, 0])
                        [0] for h in range(q.shape[1])], dim=1)


def heads_last(q, k, v, keep):
    return torch.cat([attention(q[:, h], k[:, h], v[:, h], mask_of(keep, h))[0]
                      for h in range(q.shape[1])], dim=-1)


def scaled_by_the_model(q, k, v, keep):
    return head_by_head(q / math.sqrt(q.shape[1]), k, v, keep)


def loops_over_examples(q, k, v, keep):
    keep = None if keep is None else keep.expand(len(q), -1, -1, -1)
    return torch.stack([attention(q[b], k[b], v[b], None if keep is None else keep[b])[0]
                        for b in range(len(q))])


def in_a_list(q, k, v, keep):
    return [attention(q[:, h], k[:, h], v[:, h], mask_of(keep, h))[0] for h in range(q.shape[1])]


def in_numpy(q, k, v, keep):
    return head_by_head(q, k, v, keep).numpy()


CROSS = {"causal": 2048, "block": 3072, "grouped": 640, "one more token": 1024}
RIGHT = {
    "one_head": [head_by_head, into_one_tensor, by_hand, one_example_and_head, fused_attention],
    "crossings": [CROSS, {name: float(n) for name, n in CROSS.items()}],
}
WRONG = {
    "one_head": [
        (all_at_once, "those of all heads are in memory at the same time"),
        (keeps_the_weights, "each adds an attention matrix to the peak"),
        (returns_the_weights, "It must return one tensor, the context"),
        (scores_first, "each adds an attention matrix to the peak"),
        (loops_over_examples, "those of all heads are in memory at the same time"),
        (forgets_the_mask, "The doctor says"),
        (mask_of_head_0, "The doctor says"),
        (scaled_by_the_model, "The doctor says"),
        (heads_last, "(2, 4, 120, 3); yours is (2, 120, 12)"),
        (in_a_list, "It must return one tensor, the context"),
        (in_numpy, "the context, not ndarray"),
        (lambda q, k, v, keep: F.scaled_dot_product_attention(q, k, v), "The doctor says"),
    ],
    "crossings": [
        (CROSS | {"causal": 512}, "do they reach the rest earlier or later?"),
        (CROSS | {"causal": 1024}, "That is for all pairs"),
        (CROSS | {"block": 1024}, "That is attention alone"),
        (CROSS | {"block": 2048}, "each multiplication has an addition"),
        (CROSS | {"block": 6}, "in units of d_model"),
        (CROSS | {"block": 1536}, "so the n² part reaches the rest later"),
        (CROSS | {"grouped": 1024}, "two matrices are smaller now"),
        (CROSS | {"grouped": 256}, "Only W_k and W_v are smaller"),
        (CROSS | {"grouped": 1280}, "do the attention matrices reach them earlier"),
        (CROSS | {"one more token": 32}, "One query needs no n² at all"),
        (CROSS | {"one more token": 2048}, "both need 2 n d_model operations"),
        (CROSS | {"one more token": 7}, "How many operations does one query need"),
    ],
}
