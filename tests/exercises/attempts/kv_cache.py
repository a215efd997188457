"""Attempts at the exercises on the KV cache."""

import torch
import torch.nn.functional as F

from utils.attention.cache import Cache, visible
from utils.attention.torch import attention, fused_attention


def joined(cache, k, v):
    old_k, old_v = cache or (k[:, :, :0], v[:, :, :0])
    return torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)


def masked(start):
    """Return the step whose mask lets query i see the keys up to i + start(n_q, n_k, chunks)."""
    def step(q, k, v, cache):
        chunks, held = cache or (0, None)
        k, v = joined(held, k, v)
        n_q, n_k = q.shape[2], k.shape[2]
        keep = torch.ones(n_q, n_k, dtype=torch.bool).tril(start(n_q, n_k, chunks))
        return attention(q, k, v, keep)[0], (chunks + 1, (k, v))
    return step


def by_positions(q, k, v, cache):
    cache = Cache() if cache is None else cache
    positions = cache.next_positions(q[:, 0])
    k, v, where = cache.extend(k, v, positions)
    return fused_attention(q, k, v, visible(positions, where)), cache


def token_by_token(q, k, v, cache):
    contexts = []
    for i in range(q.shape[2]):
        cache = joined(cache, k[:, :, i:i + 1], v[:, :, i:i + 1])
        contexts.append(F.scaled_dot_product_attention(q[:, :, i:i + 1], *cache))
    return torch.cat(contexts, dim=2), cache


def flipped(q, k, v, cache):
    k, v = joined(cache, k, v)
    n_q, n_k = q.shape[2], k.shape[2]
    future = torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf)
    return scores.softmax(dim=-1) @ v, (k, v)


def sdpa(causal):
    """Return the step that leaves the mask to PyTorch, is_causal=causal(n_q, is it the first?)."""
    def step(q, k, v, cache):
        first = cache is None
        k, v = joined(cache, k, v)
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal(q.shape[2], first)), (k, v)
    return step


def forgets(q, k, v, cache):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), (k, v)


def no_pair(q, k, v, cache):
    return by_positions(q, k, v, cache)[0]


def misspelt(q, k, v, cache):
    return attend_to(q, k, v), cache  # noqa: F821


RIGHT_STEP = masked(lambda n_q, n_k, chunks: n_k - n_q)
FAILS = {"chunks": [4, 8], "second": "too much", "step": RIGHT_STEP}
MEMORY = {"KiB a token": 512, "tokens in 16 GiB": 32768, "GiB with a window": 2,
          "keys at hand": 4607}


def cumulated(real, last):
    return (last + real.cumsum(dim=1)).masked_fill(~real, -1)


def counted_in_a_loop(real, last):
    positions = torch.full(real.shape, -1)
    for b, text in enumerate(real.tolist()):
        at = int(last[b])
        for i, word in enumerate(text):
            if word:
                at += 1
                positions[b, i] = at
    return positions


def where_real(real, last):
    return torch.where(real, last + torch.cumsum(real.int(), 1), -1)


def of(change):
    """Return positions_of that computes change(last, count, columns, real), padding hidden."""
    def positions_of(real, last):
        columns = torch.arange(real.shape[1])
        return change(last, real.cumsum(1), columns, real).masked_fill(~real, -1)
    return positions_of


def shifted_by_two(real, last):
    return (last + real.cumsum(1) + 2).masked_fill(~real, -1)


RIGHT = {
    "fails_one_chunking": [FAILS, FAILS | {"chunks": (11, 1), "step": by_positions},
                           FAILS | {"chunks": [5, 7], "step": token_by_token,
                                    "second": "Too much"},
                           FAILS | {"step": flipped, "chunks": [1, 11]}],
    "goes_on": [cumulated, counted_in_a_loop, where_real],
    "memory": [MEMORY, MEMORY | {"KiB a token": 512.0, "GiB with a window": 2.0}],
}
WRONG = {
    "fails_one_chunking": [
        (FAILS | {"chunks": [6, 6]}, "6 + 6 has been tested already"),
        (FAILS | {"chunks": [4, 4, 4]}, "two chunks are enough; you have 3"),
        (FAILS | {"chunks": [4, 7]}, "add up to 12"),
        (FAILS | {"chunks": 4}, "add up to 12"),
        (FAILS | {"chunks": [12, 0]}, "at least 1 that add up"),
        (FAILS | {"second": "too little"}, "Where does the second chunk begin"),
        (FAILS | {"second": True}, "in quotation marks"),
        (FAILS | {"step": masked(lambda n_q, n_k, chunks: chunks * n_q)},
         "equal chunks are right, but 4 + 8 or 8 + 4 are not"),
        (FAILS | {"step": masked(lambda n_q, n_k, chunks: 0)}, "cache position"),
        (FAILS | {"step": masked(lambda n_q, n_k, chunks: n_k)}, "unmasked prompt"),
        (FAILS | {"step": masked(lambda n_q, n_k, chunks: n_k - n_q + 1)}, "off by one"),
        (FAILS | {"step": sdpa(lambda n_q, first: n_q > 1)},
         "one pass and single tokens are right, but not several later tokens"),
        (FAILS | {"step": sdpa(lambda n_q, first: first)}, "unmasked prompt"),
        (FAILS | {"step": forgets}, "cache not appended"),
        (FAILS | {"step": no_pair}, "expected (context, cache)"),
        (FAILS | {"step": misspelt}, "attend_to"),
        (FAILS | {"step": None}, "Still open: step"),
        (FAILS | {"chunks": None}, "Still open: chunks"),
        ([4, 8], "a dict with the keys"),
    ],
    "goes_on": [
        (lambda real, last: last + real.cumsum(1), "so that no query attends to it"),
        (lambda real, last: (last + real.cumsum(1)).masked_fill(~real, 0),
         "belongs to the first token"),
        (of(lambda last, count, columns, real: count - 1), "begins at 0 again"),
        (lambda real, last: real.cumsum(1) - 1, "begins at 0 again"),
        (of(lambda last, count, columns, real: last + 1 + columns), "columns are counted"),
        (lambda real, last: last + 1 + torch.arange(5), "columns are counted"),
        (of(lambda last, count, columns, real: columns.expand(real.shape)), "columns are counted"),
        (of(lambda last, count, columns, real: last + count - 1), "All positions are 1 too small"),
        (of(lambda last, count, columns, real: last + count + 1), "All positions are 1 too large"),
        (of(lambda last, count, columns, real: last.max() + count), "where the longest ends"),
        (shifted_by_two, "column 2 is a token and must get 7, not 9"),
        (lambda real, last: real.sum(1), "(4, 5), like real, not shape (4,)"),
        (lambda real, last: 5, "not int"),
        (lambda real, last: cumulated(real, last).double(), "Positions must be integers"),
        (cumulated(torch.ones(2, 3).bool(), torch.zeros(2, 1).long()),
         "asks for a function or a class"),
    ],
    "memory": [
        (MEMORY | {"KiB a token": 256}, "A cache holds keys, and what else?"),
        (MEMORY | {"KiB a token": 16}, "That is one layer"),
        (MEMORY | {"KiB a token": 524288}, "That is in bytes"),
        (MEMORY | {"KiB a token": 7}, "Count two tensors, all layers"),
        (MEMORY | {"tokens in 16 GiB": 65536}, "Keys and values both need memory"),
        (MEMORY | {"GiB with a window": 488.28125}, "That is without a window"),
        (MEMORY | {"keys at hand": 4608}, "That is one too many"),
        (MEMORY | {"keys at hand": 4096}, "511 positions before it"),
        (MEMORY | {"tokens in 16 GiB": None}, "Still open: tokens in 16 GiB"),
    ],
}
