"""Attempts at the exercises on long contexts."""

import math

import torch

from utils.attention.long_context import scaled_rotary
from utils.attention.positions import rotate

SAME = {"positions / 8": False, "factor² on q alone": True, "factor² on cos alone": False,
        "factor² in the scale": True, "factor² in the scale, partial": False}


def unseen(freqs, trained):
    return freqs * trained < 2 * math.pi


def by_wavelength(freqs, trained):
    return 2 * math.pi / freqs > trained


def compared_with(number):
    return lambda freqs, trained: freqs * trained < number


def again(k, positions, old, new):
    return rotate(k, *scaled_rotary(positions, new - old))


def back_and_forth(k, positions, old, new):
    cos, sin = scaled_rotary(positions.double(), old)
    return rotate(rotate(k, cos, -sin), *scaled_rotary(positions.double(), new))


def back_only(k, positions, old, new):
    cos, sin = scaled_rotary(positions.double(), old)
    return rotate(k, cos, -sin)


def by_index(k, positions, old, new):
    return again(k, torch.arange(k.shape[-2]), old, new)


def in_place(k, positions, old, new):
    k.copy_(back_and_forth(k, positions, old, new))
    return k


def all_dimensions(k, positions, old, new):
    """Rotate by frequencies that are made anew, for all dimensions."""
    freqs = new[0] ** torch.arange(k.shape[-1] // 2) * 0.1
    return rotate(k, *scaled_rotary(positions, freqs))


RIGHT = {"unseen": [unseen, by_wavelength], "same_scores": [SAME],
         "again": [again, back_and_forth]}
WRONG = {
    "unseen": [
        (lambda freqs, trained: ~unseen(freqs, trained), "It is inverted"),
        (compared_with(1), "You compare with 1"),
        (compared_with(360), "are in radians"),
        (compared_with(math.pi), "Half a rotation"),
        (compared_with(4 * math.pi), "4π is two of them"),
        (compared_with(30), "How large is the angle"),
        (lambda freqs, trained: freqs * trained / (2 * math.pi), "a tensor of bools, not torch."),
        (lambda freqs, trained: (freqs * trained < 2 * math.pi).any(), "one bool for each"),
        (lambda freqs, trained: [True], "a tensor of bools, not list"),
        (17, "a function or a class")],
    "same_scores": [
        (SAME | {"positions / 8": True}, "the frequency of the first pair"),
        (SAME | {"factor² on q alone": False}, "Which factor does it get"),
        (SAME | {"factor² on cos alone": True}, "an angle of 90°"),
        (SAME | {"factor² in the scale": False}, "from cos and sin of both sides"),
        (SAME | {"factor² in the scale, partial": True}, "that are not rotated"),
        (SAME | {"positions / 8": None}, "Still open: positions / 8"),
        (True, "a dict with the keys")],
    "again": [
        (lambda k, positions, old, new: k, "The keys are unchanged"),
        (back_only, "no longer rotated at all"),
        (lambda k, positions, old, new: rotate(k, *scaled_rotary(positions, new)),
         "rotated twice"),
        (lambda k, positions, old, new: again(k, positions, new, old), "wrong direction"),
        (by_index, "You rotate key j by position j"),
        (in_place, "changes k in place"),
        (all_dimensions, "the keys differ from the right ones by"),
        (lambda k, positions, old, new: k[:, 0], "but the keys are"),
        (lambda k, positions, old, new: k.shape, "a tensor, not Size"),
        (17, "a function or a class")]}
