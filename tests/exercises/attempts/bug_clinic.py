"""Attempts at the exercises of the bug clinic."""

import math

import numpy as np
import torch

from utils.checks import difference

FOUND = {"never change": {"W_v", "b_v"}, "used instead": "W_k"}


def trims(program, x, keep):
    whole = program(x, keep)[:, :4]
    return difference(program(x[:, :4], keep[..., :4, :4]), whole) < 1e-9


def trims_with_allclose(program, x, keep):
    return torch.allclose(program(x, keep)[:, :4], program(x[:, :4], keep[:, :, :4, :4]))


def changes(program, x, keep):
    late = torch.cat([x[:, :4], torch.randn(2, 3, 12)], dim=1)
    return difference(program(late, keep)[:, :4], program(x, keep)[:, :4]) < 1e-9


def whole_mask(program, x, keep):
    return difference(program(x[:, :4], keep), program(x, keep)[:, :4]) < 1e-9


def no_mask(program, x, keep):
    return difference(program(x[:, :4], None), program(x, None)[:, :4]) < 1e-9


def only_causal(program, x, keep):
    return bool((keep.triu(1) == 0).all())


def measured(attend, d, size=1.0, sign=1):
    q, k = torch.zeros(1, 1, 1, d).double(), torch.zeros(1, 1, 2, d).double()
    q[..., 0], k[..., 0, 0] = size, size
    weights = attend(q, k, torch.eye(2).double()[None, None])[0, 0, 0]
    return sign * (weights[0].log() - weights[1].log()).item() / size ** 2


def by_numpy(attend, d):
    q, k = np.full((1, 1, 1, d), 0.1), np.zeros((1, 1, 2, d))
    k[..., 1, :] = 0.1
    weights = np.asarray(attend(q, k, np.eye(2)[None, None])).ravel()
    return math.log(weights[1] / weights[0]) / (0.01 * d)


RIGHT = {
    "trimmed": [trims, trims_with_allclose],
    "scale_of": [measured, by_numpy, lambda attend, d: measured(attend, d, 0.1)],
    "faulty_layer": [FOUND, FOUND | {"never change": {"b_v", "W_v"}}]}

WRONG = {
    "trimmed": [
        (changes, "torn twice"),
        (whole_mask, "raises ValueError"),
        (no_mask, "calls the right layer wrong"),
        (only_causal, "misses an inverted mask"),
        (lambda program, x, keep: not trims(program, x, keep), "calls the right layer wrong"),
        (lambda program, x, keep: program(x, keep), "must return True or False")],
    "scale_of": [
        (lambda attend, d: d ** -0.5, "That is what the scale should be"),
        (lambda attend, d: measured(attend, d, 100.0), "use smaller scores"),
        (lambda attend, d: measured(attend, d, sign=-1), "Only the sign is wrong"),
        (lambda attend, d: 2 * measured(attend, d), "the difference of their scores")],
    "faulty_layer": [
        (FOUND | {"never change": {"W_k"}}, "use autograd"),
        (FOUND | {"used instead": "W_q"}, "has another output"),
        (FOUND | {"used instead": "W_o"}, "to give the same output"),
        (FOUND | {"used instead": None}, "Still open: used instead"),
        ("W_v", "a dict with the keys")]}
