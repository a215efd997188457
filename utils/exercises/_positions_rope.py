"""Judge of `shifting_positions` in the chapter on positions: a reader's attention with RoPE."""

import math

import torch
import torch.nn.functional as F

from .. import reference
from ..attention.positions import rotary, rotate, sinusoidal
from ..checks import difference
from ._judges import doctor_report

FLOAT32, EXACT = 1e-4, 1e-9   # the differences that angles in float32, and in float64, explain
SCALES = {"": lambda d: d ** -0.5, "the scores are not divided by √d.": lambda d: 1.0,
          "the scores are divided by d, not by √d.": lambda d: 1 / d}


def judge_rope(program):
    """Judge rope_attention(q, k, v, q_positions, k_positions, keep): first a shift, then all."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, d, generator=generator, dtype=torch.float64)
               for n, d in ((5, 8), (7, 8), (7, 6)))
    positions = [torch.tensor(p, dtype=torch.float64)
                 for p in ((3, 5, 11, 12, 40), (0, 2, 3, 9, 11, 20, 41))]
    shifted = [p + 100 for p in positions]
    context, later = (_context(program, (q, k, v), places) for places in (positions, shifted))
    if isinstance(context, str):
        return context
    gap = difference(later, context)
    shift = f"If all positions grow by 100, the output changes by up to {gap:.2g}:"
    if gap < FLOAT32:
        shift = "If all positions grow by 100, the output stays the same, as it should. But"
    for sides, rotation_message in _known_rotations(q, k, v, *positions):
        for scale_message, scale in SCALES.items():
            expected, _ = reference.attention(*sides, scale=scale(8))
            gap = difference(context, expected)
            if gap < FLOAT32 and (rotation_message or scale_message):
                return f"{shift} {' And '.join(filter(None, (rotation_message, scale_message)))}"
            if EXACT < gap < FLOAT32:
                return (f"The output is right to {gap:.0e}, but float64 is more exact: are the "
                        "angles computed in float32? Far from 0 their error grows.")
    return doctor_report(_without_positions(program), framework="torch")


def _context(program, sides, positions):
    """Return the context as a tensor, or what is wrong with it, as a string."""
    context = program(*(side.clone() for side in sides), *(p.clone() for p in positions))
    if not isinstance(context, torch.Tensor):
        return f"It must return one tensor, the context, not {type(context).__name__}."
    q, _, v = sides
    want = (*q.shape[:-1], v.shape[-1])
    if context.shape != want:
        return (f"For q {tuple(q.shape)} and v {tuple(v.shape)} the context is {want}, not "
                f"{tuple(context.shape)}.")
    return context.detach()


def _known_rotations(q, k, v, i, j):
    """Yield ((q, k, v) rotated, message), the right rotation first."""
    d = q.shape[-1]
    at, to = rotary(i, d), rotary(j, d)
    yield (rotate(q, *at), rotate(k, *to), v), ""
    yield (q, k, v), "q and k are not rotated at all."
    yield (rotate(q, *at), rotate(k, *to), rotate(v[..., :6], *rotary(j, 6))), (
        "v is rotated, too. The rotations of q and k cancel in their product; that of v does not.")
    yield (rotate(q, *at), k, v), "only q is rotated."
    yield (q, rotate(k, *to), v), "only k is rotated."
    yield (rotate(q, *at), rotate(k, to[0], -to[1]), v), (
        "q and k are rotated in opposite directions, so their positions are added, not subtracted.")
    yield (rotate(q, at[0], -at[1]), rotate(k, to[0], -to[1]), v), (
        "both are rotated backwards: (a, b) must become (a cos − b sin, b cos + a sin).")
    yield (rotate(q, *at, interleaved=True), rotate(k, *to, interleaved=True), v), (
        "your pairs are interleaved, 2n and 2n + 1. They must be half-split: n and n + d/2.")
    yield (_mixed(q, at, True), _mixed(k, to, True), v), (
        "you pair neighbours, but the angles are in half-split order, θ₀ θ₁ … θ₀ θ₁ …: that is not "
        "a rotation.")
    yield (_mixed(q, at, False), _mixed(k, to, False), v), (
        "you pair the two halves, but the angles are in interleaved order, θ₀ θ₀ θ₁ θ₁ …: that is "
        "not a rotation.")
    for message, exponents in (
            ("all pairs are rotated by the same angle; each of the d/2 pairs must have its own.",
             torch.zeros(d // 2)),
            ("the angle of pair n is position / base^(2n / d); in yours, the 2 is missing.",
             -torch.arange(d // 2) / d)):
        angles = [p[:, None] * 10_000.0 ** exponents.double() for p in (i, j)]
        q_and_k = [rotate(x, a.cos(), a.sin()) for x, a in zip((q, k), angles, strict=True)]
        yield (*q_and_k, v), message
    index, unused = torch.arange(len(j)).double(), "the given positions are not used:"
    for message, start in ((f"{unused} q and k both count from 0.", 0),
                           (f"{unused} k counts from 0, and q ends at the last key.",
                            len(j) - len(i))):
        q_angles = rotary(index[:len(i)] + start, d)
        yield (rotate(q, *q_angles), rotate(k, *rotary(index, d)), v), message
    yield (q + sinusoidal(i, d), k + sinusoidal(j, d), v), (
        "sinusoids are *added* to q and k. They must be rotated.")


def _mixed(x, angles, neighbours):
    """Rotate with pairs of one kind and angles in the order of the other."""
    if neighbours:
        cos, sin = (torch.cat((a, a), -1) for a in angles)
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return x * cos + torch.stack((-b, a), -1).flatten(-2) * sin
    cos, sin = (a.repeat_interleave(2, -1) for a in angles)
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), -1) * sin


def _without_positions(program):
    """Return the program as a kernel without positions: its rotation is undone in advance."""
    def kernel(q, k, v, keep):
        d = q.shape[-1]
        if d % 2:  # one more dimension of zeros, and a longer q, keep the scaled scores
            q, k = F.pad(q, (0, 1)) * math.sqrt((d + 1) / d), F.pad(k, (0, 1))
        positions = [3.0 * torch.arange(x.shape[-2]).double() + 5 for x in (q, k)]
        angles = [rotary(p, q.shape[-1]) for p in positions]
        q, k = (rotate(x, cos, -sin) for x, (cos, sin) in zip((q, k), angles, strict=True))
        return program(q, k, v, *positions, keep)
    kernel.__name__ = getattr(program, "__name__", "your program")
    return kernel
