"""Attempts at the exercises on positions."""

import math

import torch

from utils.attention.positions import rotary, rotate, sinusoidal


def attend(q, k, v, keep=None, scale=math.sqrt, dim=-1, full=-math.inf):
    scores = q @ k.mT / scale(q.shape[-1])
    if keep is not None:
        scores = scores.masked_fill(~keep, full)
    return scores.softmax(dim=dim).nan_to_num(0.0) @ v


def right(q, k, v, q_positions, k_positions, keep=None, **how):
    q = rotate(q, *rotary(q_positions, q.shape[-1]))
    k = rotate(k, *rotary(k_positions, k.shape[-1]))
    return attend(q, k, v, keep, **how)


def complex_numbers(q, k, v, q_positions, k_positions, keep=None):
    def rotated(x, positions):
        half = x.shape[-1] // 2
        speed = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        z = torch.polar(torch.ones(()).double(), positions[:, None] * speed)
        z = z * torch.complex(x[..., :half].double(), x[..., half:].double())
        return torch.cat((z.real, z.imag), dim=-1).to(x)
    return torch.nn.functional.scaled_dot_product_attention(
        rotated(q, q_positions), rotated(k, k_positions), v, attn_mask=keep)


def rotate_half(q, k, v, q_positions, k_positions, keep=None, dtype=torch.float64, axes=torch.cat,
                rotate_v=False, speed=lambda d: 10_000.0 ** (-torch.arange(0, d, 2).double() / d),
                sign=1):
    """As in transformers; the options are for mistakes."""
    def rotated(x, positions, sign=1):
        angle = positions[:, None].to(dtype) * speed(x.shape[-1]).to(dtype)
        angle = torch.cat((angle, angle), dim=-1)
        a, b = x.chunk(2, dim=-1)
        return x * angle.cos().to(x) + torch.cat((-b, a), dim=-1) * sign * angle.sin().to(x)
    v = rotated(v, k_positions) if rotate_v else v
    return attend(rotated(q, q_positions), rotated(k, k_positions, sign), v, keep)


def changed(change):
    """Return rope_attention in which q, k, v and positions are changed before."""
    def program(q, k, v, q_positions, k_positions, keep=None):
        return attend(*change(q, k, v, q_positions, k_positions), keep)
    return program


def rotated(x, p, **how):
    return rotate(x, *rotary(p, x.shape[-1]), **how)


def back(x, p):
    cos, sin = rotary(p, x.shape[-1])
    return rotate(x, cos, -sin)


def mixed(x, p):
    cos, sin = (torch.cat((a, a), -1) for a in rotary(p, x.shape[-1]))
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return x * cos.to(x) + torch.stack((-b, a), -1).flatten(-2) * sin.to(x)


def mixed_halves(x, p):
    cos, sin = (a.repeat_interleave(2, -1) for a in rotary(p, x.shape[-1]))
    a, b = x.chunk(2, -1)
    return x * cos.to(x) + torch.cat((-b, a), -1) * sin.to(x)


def port(W, n_heads, turned):
    head = W.unflatten(-1, (n_heads, -1))
    pairs = head[..., :turned].unflatten(-1, (2, -1)).mT
    return torch.cat((pairs.flatten(-2), head[..., turned:]), dim=-1).flatten(-2)


def indexed(W, n_heads, turned):
    d = W.shape[-1] // n_heads
    order = torch.arange(d)
    order[0:turned:2], order[1:turned:2] = torch.arange(turned // 2), torch.arange(
        turned // 2, turned)
    return W[..., (torch.arange(n_heads)[:, None] * d + order).flatten()]


def inverse(W, n_heads, turned):
    head = W.unflatten(-1, (n_heads, -1))
    pairs = head[..., :turned].unflatten(-1, (-1, 2)).mT
    return torch.cat((pairs.flatten(-2), head[..., turned:]), dim=-1).flatten(-2)


def in_place(W, n_heads, turned):
    W[..., :] = port(W, n_heads, turned)
    return W


def rows(W, n_heads, turned):
    return port(W.mT, n_heads, turned).mT if W.ndim == 2 and len(W) == 36 else port(
        W, n_heads, turned)


FIVE = {"a": False, "b": True, "c": True, "d": False, "e": True, "scores_only": "a"}

RIGHT = {
    "shifting_positions": [right, complex_numbers, rotate_half],
    "proposals": [FIVE, FIVE | {"scores_only": "A"}],
    "port": [port, indexed]}

WRONG = {
    "shifting_positions": [
        (changed(lambda q, k, v, i, j: (q, k, v)), "not rotated at all"),
        (changed(lambda q, k, v, i, j: (rotated(q, i), rotated(k, j), rotated(v, j))),
         "v is rotated, too"),
        (lambda *a, **k: rotate_half(*a, **k, rotate_v=True), "v is rotated, too"),
        (changed(lambda q, k, v, i, j: (rotated(q, i), k, v)), "only q is rotated"),
        (changed(lambda q, k, v, i, j: (q, rotated(k, j), v)), "only k is rotated"),
        (lambda *a, **k: rotate_half(*a, **k, sign=-1), "in opposite directions"),
        (changed(lambda q, k, v, i, j: (back(q, i), back(k, j), v)), "both are rotated backwards"),
        (changed(lambda q, k, v, i, j: (rotated(q, i, interleaved=True),
                                        rotated(k, j, interleaved=True), v)),
                                        "are interleaved, 2n"),
        (changed(lambda q, k, v, i, j: (mixed(q, i), mixed(k, j), v)), "in half-split order"),
        (changed(lambda q, k, v, i, j: (mixed_halves(q, i), mixed_halves(k, j), v)),
         "in interleaved order"),
        (lambda *a, **k: rotate_half(*a, **k, speed=lambda d: torch.ones(d // 2)),
         "rotated by the same angle"),
        (lambda *a, **k: rotate_half(*a, **k, speed=lambda d: 10_000.0 ** (
            -torch.arange(d // 2).double() / d)), "the 2 is missing"),
        (changed(lambda q, k, v, i, j: (rotated(q, torch.arange(len(i))),
                                        rotated(k, torch.arange(len(j))), v)), "both count from 0"),
        (changed(lambda q, k, v, i, j: (rotated(q, torch.arange(len(i)) + len(j) - len(i)),
                                        rotated(k, torch.arange(len(j))), v)),
                                        "q ends at the last key"),
        (changed(lambda q, k, v, i, j: (q + sinusoidal(i, q.shape[-1]),
                                        k + sinusoidal(j, k.shape[-1]), v)), "are *added*"),
        (lambda *a: rotate_half(*a, dtype=torch.float32), "float64 is more exact"),
        (lambda *a: right(*a, scale=lambda d: 1), "as it should. But the scores are not divided"),
        (lambda *a: right(*a, scale=lambda d: d), "divided by d, not by √d"),
        (lambda q, k, v, i, j, keep=None: attend(rotated(q, i), rotated(k, j), rotated(v, j),
                                                 scale=lambda d: 1),
         "that of v does not. And the scores are not"),
        (lambda q, k, v, i, j, keep=None: right(q, k, v, i, j), "The doctor says"),
        (lambda q, k, v, i, j, keep=None: right(q, k, v, i, j, keep=None if keep is None
                                                else ~keep), "The doctor says"),
        (lambda q, k, v, i, j, keep=None: right(q, k, v, i, j, keep) + q.mean(),
         "The doctor says"),
        (lambda q, k, v, i, j, keep=None: right(q, k, v, i, j, keep).mT, "the context is (2, 3, 5"),
        (lambda q, k, v, i, j, keep=None: (right(q, k, v, i, j, keep), 0), "not tuple"),
        (lambda q, k, v: v, "raises TypeError")],
    "proposals": [
        (FIVE | {"a": True}, "How does that change softmax"),
        (FIVE | {"b": False}, "the two terms in the middle"),
        (FIVE | {"c": False}, "106 and 103"),
        (FIVE | {"d": True}, "depend on positions at all"),
        (FIVE | {"e": False}, "when the sentence begins at 100"),
        (FIVE | {"scores_only": "d"}, "the scores do not change either"),
        (FIVE | {"scores_only": None}, "Still open: scores_only"),
        (FIVE | {"a": "no"}, "Answer True or False"),
        ("a", "a dict with the keys")],
    "port": [
        (lambda W, n_heads, turned: W, "The order is unchanged"),
        (inverse, "That is the inverse"),
        (lambda W, n_heads, turned: port(W, 1, turned if turned * n_heads < W.shape[-1]
                                         else W.shape[-1]), "one large head"),
        (lambda W, n_heads, turned: port(W, n_heads, W.shape[-1] // n_heads),
         "among all d dimensions"),
        (lambda W, n_heads, turned: port(W, n_heads, turned).unflatten(-1, (n_heads, -1))[
            ..., :turned].flatten(-2), "The shape must stay the same"),
        (in_place, "the caller still needs it"),
        (rows, "the order is wrong"),
        (lambda W, n_heads, turned: 2 * port(W, n_heads, turned), "Only reorder them"),
        (lambda W, n_heads, turned: port(W, n_heads, turned).numpy(), "must return a tensor"),
        (lambda W, n_heads, turned: port(W.flip(-1), n_heads, turned).flip(-1),
         "You pair the *last* dimensions"),
        (lambda W, n_heads, turned: torch.cat([torch.cat((
            head[..., turned // 2:turned], head[..., :turned // 2], head[..., turned:]), -1)
            for head in W.chunk(n_heads, -1)], -1), "swaps the two halves")]}
