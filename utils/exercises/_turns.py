"""Attention with RoPE, right and wrong in many ways: what a reader's program is compared with."""

import math

import torch
import torch.nn.functional as F

from utils import reference
from utils.attention.positions import rotary, rotate, sinusoidal
from utils.checks import difference
from utils.exercises._check import examined

ROUNDED, EXACT = 1e-4, 1e-9   # what float32 angles explain, and what float64 ones do
SCALES = {"": lambda d: d ** -0.5, "nothing divides the scores by √d.": lambda d: 1.0,
          "the scores are divided by d, not by its root.": lambda d: 1 / d}


def turning(program):
    """Judge rope_attention(q, k, v, q_positions, k_positions, keep): shifted, then examined."""
    generator = torch.Generator().manual_seed(0)
    sides = [torch.randn(2, 3, n, d, generator=generator, dtype=torch.float64)
             for n, d in ((5, 8), (7, 8), (7, 6))]
    places = [torch.tensor(p, dtype=torch.float64)
              for p in ((3, 5, 11, 12, 40), (0, 2, 3, 9, 11, 20, 41))]
    here, there = (_asked(program, sides, [p + shift for p in places]) for shift in (0, 100))
    if isinstance(here, str):
        return here
    gap = difference(there, here)
    shift = ("A shift by 100 does not move it, as it should be. But" if gap < ROUNDED else
             f"A shift by 100 moves its answers, by up to {gap:.2g}:")
    for turn, why in _turns(*sides, *places):
        for factor, scale in SCALES.items():
            gap = difference(here, _context(*turn, scale(8)))
            if gap < ROUNDED and (why or factor):
                return f"{shift} {' And '.join(filter(None, (why, factor)))}"
            if EXACT < gap < ROUNDED:
                return (f"Right to {gap:.0e}, and float64 can do better: something about the "
                        "angles is float32, and far from 0 that costs more.")
    return examined(_straightened(program), framework="torch")


def _asked(program, sides, places):
    """Return the context as a tensor, or what is wrong with it, in words."""
    context = program(*(side.clone() for side in sides), *(p.clone() for p in places))
    if not isinstance(context, torch.Tensor):
        return f"It should return one tensor, the context, not {type(context).__name__}."
    want = (*sides[0].shape[:-1], sides[2].shape[-1])
    if context.shape != want:
        return f"For q {tuple(sides[0].shape)} and v {tuple(sides[2].shape)} the context is " \
               f"{want}, not {tuple(context.shape)}."
    return context.detach()


def _context(q, k, v, scale):
    return reference.attention(q, k, v, scale=scale)[0]


def _turns(q, k, v, i, j):
    """Yield ((q, k, v) turned rightly, ""), then wrongly, with what is wrong."""
    d = q.shape[-1]
    at, to = rotary(i, d), rotary(j, d)
    yield (rotate(q, *at), rotate(k, *to), v), ""
    yield (q, k, v), "q and k are not turned at all."
    yield (rotate(q, *at), rotate(k, *to), rotate(v[..., :6], *rotary(j, 6))), (
        "v is turned, too. Only q and k meet their own kind and cancel; what v brings, it keeps.")
    yield (rotate(q, *at), k, v), "only q is turned."
    yield (q, rotate(k, *to), v), "only k is turned."
    yield (rotate(q, *at), rotate(k, to[0], -to[1]), v), (
        "q and k turn in opposite directions, so their positions are added, not subtracted.")
    yield (rotate(q, at[0], -at[1]), rotate(k, to[0], -to[1]), v), (
        "both turn backwards: (a, b) becomes (a cos − b sin, b cos + a sin). Yours takes what "
        "stands to the left for what stands to the right.")
    yield (rotate(q, *at, interleaved=True), rotate(k, *to, interleaved=True), v), (
        "your pairs are neighbours, 2n and 2n + 1. Half-split is asked for: n and n + d/2.")
    for why, pairs in (("neighbours are paired, but the angles are laid out for halves, θ₀ θ₁ … θ₀ "
                        "θ₁ …", True), ("halves are paired, but the angles are laid out for "
                                        "neighbours, θ₀ θ₀ θ₁ θ₁ …", False)):
        yield (_mixed(q, at, pairs), _mixed(k, to, pairs), v), f"{why}: that is no rotation."
    for why, speeds in (
            ("all features turn by the same angle: there is one clock instead of d/2.",
             torch.zeros(d // 2)),
            ("hand n turns by position / base^(2n / d); in yours, the 2 is missing.",
             -torch.arange(d // 2) / d)):
        angles = [p[:, None] * 10_000.0 ** speeds.double() for p in (i, j)]
        yield (*(rotate(x, a.cos(), a.sin()) for x, a in zip((q, k), angles, strict=True)), v), why
    first = torch.arange(len(j)).double()
    for why, start in (("the positions that you are given are not used: q and k both count from 0.",
                        0), ("the positions that you are given are not used: k counts from 0, and "
                             "q up to the last key.", len(j) - len(i))):
        yield (rotate(q, *rotary(first[:len(i)] + start, d)), rotate(k, *rotary(first, d)), v), why
    yield (q + sinusoidal(i, d), k + sinusoidal(j, d), v), (
        "sinusoids are *added* to q and k. They should be turned.")


def _mixed(x, angles, neighbours):
    """Turn with pairs of one kind and angles laid out for the other."""
    cos, sin = (torch.cat((a, a), -1) if neighbours else a.repeat_interleave(2, -1) for a in angles)
    if neighbours:
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return x * cos + torch.stack((-b, a), -1).flatten(-2) * sin
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), -1) * sin


def _straightened(program):
    """Return the program as a kernel without positions: what it will turn is turned back first."""
    def kernel(q, k, v, keep):
        d = q.shape[-1]
        if d % 2:  # one feature of zeros more, and a longer q, leave the scaled scores as they were
            q, k = F.pad(q, (0, 1)) * math.sqrt((d + 1) / d), F.pad(k, (0, 1))
        places = [3.0 * torch.arange(x.shape[-2]).double() + 5 for x in (q, k)]
        q, k = (rotate(x, cos, -sin) for x, (cos, sin) in (
            (x, rotary(p, x.shape[-1])) for x, p in zip((q, k), places, strict=True)))
        return program(q, k, v, *places, keep)
    kernel.__name__ = getattr(program, "__name__", "your program")
    return kernel
