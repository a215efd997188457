"""Attempts at the exercises on today's models."""

import torch

from utils.attention.departures import qk_norm
from utils.attention.torch import attention, masked_softmax

SURVIVES = dict(zip("abcdefg", (True, False, True, False, True, False, True), strict=True))


def by_hand(q, k, v, stored_q, stored_k, scale, keep):
    def norm(x, stored):
        return x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * (1 + stored)

    scores = scale * norm(q, stored_q) @ norm(k, stored_k).mT
    return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ v


def through_attention(q, k, v, stored_q, stored_k, scale, keep):
    """The factor that attention divides by is put into q."""
    q = qk_norm(q, 1 + stored_q) * scale * q.shape[-1] ** 0.5
    return attention(q, qk_norm(k, 1 + stored_k), v, keep)[0]


def gemma(norm_q=None, norm_k=None, factor=lambda scale, d: scale, mask=lambda keep: keep,
          values=lambda v: v):
    def plain(x, stored):
        return qk_norm(x, stored, plus_one=True)

    def program(q, k, v, stored_q, stored_k, scale, keep):
        q, k = (norm_q or plain)(q, stored_q), (norm_k or norm_q or plain)(k, stored_k)
        return masked_softmax(factor(scale, q.shape[-1]) * q @ k.mT, mask(keep)) @ values(v)
    return program


def whole(x, stored):
    return qk_norm(x, stored.repeat(x.shape[1]), whole=True, plus_one=True)


def crossed(q, k, v, stored_q, stored_k, scale, keep):
    """Without RoPE, only the product of the two gains matters."""
    return by_hand(q, k, v, stored_k, stored_q, scale, keep)


def in_place(q, k, v, stored_q, stored_k, scale, keep):
    stored_q += 1
    return gemma(norm_q=qk_norm)(q, k, v, stored_q, stored_k + 1, scale, keep)


def scaled_first(q, k, v, stored_q, stored_k, scale, keep):
    return gemma(factor=lambda scale, d: 1)(scale * q, k, v, stored_q, stored_k, scale, keep)


def raw(x, stored):
    return x


def counted(n=65, query=-1, limit=True, less=0, kind=float):
    """Count the values on which a query depends."""
    def measure(program):
        q, k, v = torch.randn(3, 1, 1, n, 4, generator=torch.Generator().manual_seed(0)).double()
        before, seen = program(q, k, v), 0
        for j in range(n):
            other = v.clone()
            other[:, :, j] += 1
            changed = (program(q, k, other) != before).any(dim=-1)[0, 0]
            seen += bool(changed.any() if query is None else changed[query])
        return None if limit and seen == n else seen - less
    return measure


def by_gradient(program):
    q, k, v = torch.randn(3, 1, 1, 65, 4, generator=torch.Generator().manual_seed(0)).double()
    v.requires_grad_()
    program(q, k, v)[0, 0, -1].sum().backward()
    seen = int((v.grad[0, 0] != 0).any(dim=-1).sum())
    return seen if seen <= 64 else None


RIGHT = {"survives": [SURVIVES],
         "gemma": [by_hand, through_attention, gemma(), crossed],
         "window": [counted(), by_gradient]}
WRONG = {
    "survives": [
        (SURVIVES | {"a": False}, "What does a rotation do"),
        (SURVIVES | {"b": True}, "What if they have different gains"),
        (SURVIVES | {"c": False}, "what of 100 k"),
        (SURVIVES | {"d": True}, "What sign do the scores have"),
        (SURVIVES | {"e": False}, "Softmax looks at differences"),
        (SURVIVES | {"f": True}, "Does the total weight of the keys stay"),
        (SURVIVES | {"g": False}, "the last of four queries"),
        (SURVIVES | {"g": None}, "Still open: g")],
    "gemma": [
        (gemma(norm_q=qk_norm), "by what must you multiply"),
        (gemma(norm_q=lambda x, stored: qk_norm(x, 2 + stored)), "twice"),
        (gemma(norm_q=lambda x, stored: qk_norm(x)), "the gains are not used"),
        (gemma(norm_q=raw), "q and k are not normalised"),
        (gemma(norm_q=lambda x, stored: qk_norm(x, 1 + stored), norm_k=raw), "k is not"),
        (gemma(norm_q=raw, norm_k=lambda x, stored: qk_norm(x, 1 + stored)), "q is not"),
        (gemma(norm_q=whole), "all heads are normalised together"),
        (gemma(norm_q=lambda x, stored: x / x.norm(dim=-1, keepdim=True) * (1 + stored)),
         "the root of the *sum*"),
        (gemma(factor=lambda scale, d: d ** -0.5), "by 1 / √d, not by `scale`"),
        (gemma(factor=lambda scale, d: scale * d ** -0.5), "and by 1 / √d, too"),
        (scaled_first, "the norm takes it out again"),
        (gemma(factor=lambda scale, d: 1 / scale), "divided by `scale`"),
        (gemma(mask=lambda keep: None), "it uses no mask"),
        (gemma(mask=lambda keep: ~keep), "the mask is inverted"),
        (gemma(values=qk_norm), "the values are normalised"),
        (in_place, "it changes a tensor"),
        (lambda q, *rest: (q, q), "return the context alone"),
        (lambda q, *rest: q[0], "it must return a tensor (2, 3, 5, 8), got (3, 5, 8)"),
        (lambda q, *rest: 3, "got int"),
        (lambda q, *rest: q, "it differs from the reference by")],
    "window": [
        (counted(less=1), "one key too few"),
        (counted(less=-1), "one key too many"),
        (counted(limit=False), "so the answer is None"),
        (counted(n=200, limit=False), "so the answer is None"),
        (counted(n=64), "a window of 64 gets None"),
        (counted(query=30), "a window of 64 gets 31"),
        (counted(query=None), "the output of any query"),
        (lambda program: "4", "a number or None, not str"),
        (lambda program: 4, "a window of 5 gets 4")]}
