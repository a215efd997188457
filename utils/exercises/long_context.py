"""The exercises of the chapter on long contexts."""

import math

import torch

from ..attention.long_context import frequencies, interpolated, scaled_rotary, yarn
from ..attention.positions import rotate
from ..checks import difference
from ._check import Check, Exercise
from ._judges import predictions, recognise

SAME = predictions(
    {"positions / 8": False, "factor² on q alone": True, "factor² on cos alone": False,
     "factor² in the scale": True, "factor² in the scale, partial": False}, {
        "positions / 8": "By how much does YaRN divide the frequency of the first pair?",
        "factor² on q alone": "A score is a product of q and k. Which factor does it get?",
        "factor² on cos alone": "Look at one pair at an angle of 90°: which of its products are "
                                "left, and which factor do they get?",
        "factor² in the scale": "Which factor do the scores get from cos and sin of both sides?",
        "factor² in the scale, partial": "The products of the dimensions that are not rotated "
                                         "belong to the score, too. Which factor do they get in "
                                         "the right program?"})


def _unseen(program):
    """Judge unseen(freqs, trained): which pairs do not complete a rotation?"""
    cases = [(frequencies(32), 128), (frequencies(8, 500.0), 40), (frequencies(64, 1e6), 4096),
             (torch.tensor([0.001, 2.0, 0.1], dtype=torch.float64), 50)]
    got = []
    for freqs, trained in cases:
        found = program(freqs, trained)
        if not isinstance(found, torch.Tensor) or found.dtype != torch.bool:
            return f"It must return a tensor of bools, not {_kind(found)}."
        if found.shape != freqs.shape:
            return (f"For {len(freqs)} frequencies it returns {tuple(found.shape)}. There must be "
                    "one bool for each.")
        got.append((found, freqs, trained))
    for message, rule in UNSEEN.items():
        if all(torch.equal(found, rule(freqs, trained)) for found, freqs, trained in got):
            return message
    found, freqs, trained = next(case for case in got if not torch.equal(
        case[0], UNSEEN[""](*case[1:])))
    return (f"For the frequencies {[round(f, 4) for f in freqs.tolist()][:4]} … and {trained} "
            "tokens it is wrong. How large is the angle of each pair at the last distance?")


UNSEEN = {
    "": lambda freqs, trained: freqs * trained < 2 * math.pi,
    "It is inverted: True = the pair does *not* complete a rotation.":
        lambda freqs, trained: freqs * trained >= 2 * math.pi,
    "You compare with 1, but a frequency is an angle in radians: a rotation is 2π.":
        lambda freqs, trained: freqs * trained < 1,
    "You compare with 360, but the angles are in radians.":
        lambda freqs, trained: freqs * trained < 360,
    "Half a rotation is π. A whole one is twice as much.":
        lambda freqs, trained: freqs * trained < math.pi,
    "The rotation is counted twice as long: 4π is two of them.":
        lambda freqs, trained: freqs * trained < 4 * math.pi}


def _again(program):
    """Judge again(k, positions, old, new): keys rotated by old frequencies, now by new ones."""
    generator = torch.Generator().manual_seed(6)
    plain = torch.randn((2, 3, 7, 12), generator=generator, dtype=torch.float64)
    positions = torch.tensor([0, 1, 4, 30, 31, 40, 90])
    for pairs in (6, 4):                                # the second rotates 8 of 12 dimensions
        old = interpolated(frequencies(2 * pairs, 200.0), 1.5)
        new, _ = yarn(2 * pairs, 200.0, 4, 64)
        k = _turned(plain, positions, old)
        before = k.clone()
        found = program(k, positions, old, new)
        if not torch.equal(k, before):
            return "It changes k in place, but the cache still needs it. Make a new tensor."
        if not isinstance(found, torch.Tensor):
            return f"It must return a tensor, not {_kind(found)}."
        if found.shape != k.shape:
            return f"It returns {tuple(found.shape)}, but the keys are {tuple(k.shape)}."
        message = recognise(found, _known(plain, k, positions, old, new), 1e-5)
        if message is None:
            gap = difference(found, _turned(plain, positions, new))
            message = (f"With {pairs} frequencies for {k.shape[-1]} dimensions, the keys differ "
                       f"from the right ones by {gap:.1g}.")
        if message:
            return message
    return ""


def _turned(x, positions, freqs):
    return rotate(x, *scaled_rotary(positions.double(), freqs))


def _known(plain, k, positions, old, new):
    """Yield (keys, message) of programs, the right one first."""
    yield _turned(plain, positions, new), ""
    yield k, "The keys are unchanged."
    yield plain, "The keys are no longer rotated at all."
    yield (_turned(k, positions, new), "The keys are rotated twice: they still have the old angle, "
                                       "and the new one is added.")
    yield _turned(k, positions, old - new), "They are rotated in the wrong direction."
    yield (_turned(k, torch.arange(len(positions)), new - old),
           "You rotate key j by position j. The positions are given, and they have gaps.")


def _kind(value):
    return value.dtype if isinstance(value, torch.Tensor) else type(value).__name__


check = Check({
    "unseen": Exercise(_unseen, (
        "The angle of a pair at distance m is m times its frequency.",
        "A rotation is 2π radians.",
        "Compare freqs * trained with 2π."),
        "For the other pairs, a longer text brings angles that occurred in the training, one or "
        "more rotations earlier."),
    "same_scores": Exercise(SAME, (
        "For each change: by which factor is each product q·k of a pair multiplied, and by which "
        "angle is the pair rotated?",
        "In the right program, a pair contributes factor² times the product of its rotated sides.",
        "With partial rotary, dimensions that are not rotated meet neither cos nor sin."),
        "That is why a library may put the factor into the scale, and another one into cos and "
        "sin. Only one of the two places may have it."),
    "again": Exercise(_again, (
        "Rotations of a pair add up: first by a, then by b is by a + b.",
        "The keys have the angle positions · old, and need positions · new.",
        "rotate by scaled_rotary(positions, new − old)."),
        "So a cache survives a change of the frequencies, if it knows the position of each key. "
        "Exactness has a price in low precision: each further rotation rounds again."),
})
