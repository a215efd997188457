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
    def turn(x, positions):
        half = x.shape[-1] // 2
        speed = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        z = torch.polar(torch.ones(()).double(), positions[:, None] * speed)
        z = z * torch.complex(x[..., :half].double(), x[..., half:].double())
        return torch.cat((z.real, z.imag), dim=-1).to(x)
    return torch.nn.functional.scaled_dot_product_attention(
        turn(q, q_positions), turn(k, k_positions), v, attn_mask=keep)


def rotate_half(q, k, v, q_positions, k_positions, keep=None, dtype=torch.float64, axes=torch.cat,
                turn_v=False, speed=lambda d: 10_000.0 ** (-torch.arange(0, d, 2).double() / d),
                sign=1):
    """As in transformers; the options are for mistakes."""
    def turn(x, positions, sign=1):
        angle = positions[:, None].to(dtype) * speed(x.shape[-1]).to(dtype)
        angle = torch.cat((angle, angle), dim=-1)
        a, b = x.chunk(2, dim=-1)
        return x * angle.cos().to(x) + torch.cat((-b, a), dim=-1) * sign * angle.sin().to(x)
    v = turn(v, k_positions) if turn_v else v
    return attend(turn(q, q_positions), turn(k, k_positions, sign), v, keep)


def changed(change):
    """Return rope_attention in which q, k, v and positions are changed before."""
    def program(q, k, v, q_positions, k_positions, keep=None):
        return attend(*change(q, k, v, q_positions, k_positions), keep)
    return program


def turn(x, p, **how):
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


def way_back(W, n_heads, turned):
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
        (changed(lambda q, k, v, i, j: (q, k, v)), "not turned at all"),
        (changed(lambda q, k, v, i, j: (turn(q, i), turn(k, j), turn(v, j))), "v is turned, too"),
        (lambda *a, **k: rotate_half(*a, **k, turn_v=True), "v is turned, too"),
        (changed(lambda q, k, v, i, j: (turn(q, i), k, v)), "only q is turned"),
        (changed(lambda q, k, v, i, j: (q, turn(k, j), v)), "only k is turned"),
        (lambda *a, **k: rotate_half(*a, **k, sign=-1), "in opposite directions"),
        (changed(lambda q, k, v, i, j: (back(q, i), back(k, j), v)), "both turn backwards"),
        (changed(lambda q, k, v, i, j: (turn(q, i, interleaved=True),
                                        turn(k, j, interleaved=True), v)), "are neighbours, 2n"),
        (changed(lambda q, k, v, i, j: (mixed(q, i), mixed(k, j), v)), "laid out for halves"),
        (changed(lambda q, k, v, i, j: (mixed_halves(q, i), mixed_halves(k, j), v)),
         "laid out for neighbours"),
        (lambda *a, **k: rotate_half(*a, **k, speed=lambda d: torch.ones(d // 2)), "one clock"),
        (lambda *a, **k: rotate_half(*a, **k, speed=lambda d: 10_000.0 ** (
            -torch.arange(d // 2).double() / d)), "the 2 is missing"),
        (changed(lambda q, k, v, i, j: (turn(q, torch.arange(len(i))),
                                        turn(k, torch.arange(len(j))), v)), "both count from 0"),
        (changed(lambda q, k, v, i, j: (turn(q, torch.arange(len(i)) + len(j) - len(i)),
                                        turn(k, torch.arange(len(j))), v)), "up to the last key"),
        (changed(lambda q, k, v, i, j: (q + sinusoidal(i, q.shape[-1]),
                                        k + sinusoidal(j, k.shape[-1]), v)), "are *added*"),
        (lambda *a: rotate_half(*a, dtype=torch.float32), "float64 can do better"),
        (lambda *a: right(*a, scale=lambda d: 1), "does not move it, as it should be. But nothing"),
        (lambda *a: right(*a, scale=lambda d: d), "not by its root"),
        (lambda q, k, v, i, j, keep=None: attend(turn(q, i), turn(k, j), turn(v, j),
                                                 scale=lambda d: 1),
         "it keeps. And nothing divides"),
        (lambda q, k, v, i, j, keep=None: right(q, k, v, i, j), "The doctor says"),
        (lambda q, k, v, i, j, keep=None: right(q, k, v, i, j, keep=None if keep is None
                                                else ~keep), "The doctor says"),
        (lambda q, k, v, i, j, keep=None: right(q, k, v, i, j, keep) + q.mean(),
         "The doctor says"),
        (lambda q, k, v, i, j, keep=None: right(q, k, v, i, j, keep).mT, "the context is (2, 3, 5"),
        (lambda q, k, v, i, j, keep=None: (right(q, k, v, i, j, keep), 0), "not tuple"),
        (lambda q, k, v: v, "raises TypeError")],
    "proposals": [
        (FIVE | {"a": True}, "What does softmax make of that"),
        (FIVE | {"b": False}, "the two terms in the middle"),
        (FIVE | {"c": False}, "106 and 103"),
        (FIVE | {"d": True}, "do they know of positions"),
        (FIVE | {"e": False}, "when the sentence begins at 100"),
        (FIVE | {"scores_only": "d"}, "not even the scores move"),
        (FIVE | {"scores_only": None}, "Still open: scores_only"),
        (FIVE | {"a": "no"}, "Answer True or False"),
        ("a", "a dict with the keys")],
    "port": [
        (lambda W, n_heads, turned: W, "Nothing has moved"),
        (way_back, "That is the way back"),
        (lambda W, n_heads, turned: port(W, 1, turned if turned * n_heads < W.shape[-1]
                                         else W.shape[-1]), "one large head"),
        (lambda W, n_heads, turned: port(W, n_heads, W.shape[-1] // n_heads),
         "among all d features"),
        (lambda W, n_heads, turned: port(W, n_heads, turned).unflatten(-1, (n_heads, -1))[
            ..., :turned].flatten(-2), "same shape"),
        (in_place, "somebody else's"),
        (rows, "the order is not it"),
        (lambda W, n_heads, turned: 2 * port(W, n_heads, turned), "do not calculate"),
        (lambda W, n_heads, turned: port(W, n_heads, turned).numpy(), "should return a tensor"),
        (lambda W, n_heads, turned: port(W.flip(-1), n_heads, turned).flip(-1),
         "Your *first* features pass"),
        (lambda W, n_heads, turned: torch.cat([torch.cat((
            head[..., turned // 2:turned], head[..., :turned // 2], head[..., turned:]), -1)
            for head in W.chunk(n_heads, -1)], -1), "swaps the two halves")]}
