"""Attempts at the exercises on the scaled dot product."""

import numpy as np
import torch

from utils.attention.numpy import softmax


def divided(start_power, rates_power):
    return lambda start, rates, d_k: (start / d_k ** start_power, rates / d_k ** rates_power)


def in_place(start, rates, d_k):
    start /= d_k ** 0.5
    return start, rates / d_k


def logs_of_a_row(program, d_k, v=None, centred=True, stretch=1.0, n_k=7):
    rng = np.random.default_rng(0)
    q, k = stretch * rng.standard_normal((1, d_k)), rng.standard_normal((n_k, d_k))
    logs, raw = np.log(program(q, k, np.eye(n_k) if v is None else v)[0]), k @ q[0]
    if centred:
        logs, raw = logs - logs.mean(), raw - raw.mean()
    return (raw @ raw) / (raw @ logs)


def two_keys(program, d_k):
    q = torch.ones(1, d_k, dtype=torch.float64) / d_k
    weights = program(q, torch.stack([torch.zeros_like(q[0]), torch.ones_like(q[0])]),
                      torch.eye(2, dtype=torch.float64))
    return 1 / (weights[0, 1] / weights[0, 0]).log()


def by_the_spread(program, d_k):
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, d_k)), rng.standard_normal((2000, d_k))
    return np.linalg.norm(q) / np.log(program(q, k, np.eye(2000))).std()


def root_after_a_look(program, d_k):
    program(np.zeros((1, d_k)), np.zeros((7, d_k)), np.eye(7))
    return d_k ** 0.5


def own(scale_of=lambda scale, d_k: d_k ** -0.5 if scale is None else scale, axis=-1,
        shift_axis=-1, values=True, divide=True, flip=False, softly=True):
    def attention(q, k, v, scale=None):
        scores = q @ k.swapaxes(-2, -1) * scale_of(scale, q.shape[-1])
        if shift_axis is not False:
            scores = scores - scores.max(axis=shift_axis, keepdims=True)
        weights = np.exp(scores) if softly else scores
        if divide:
            weights = weights / weights.sum(axis=axis, keepdims=True)
        context = weights @ v if values else weights
        return (weights, context) if flip else (context, weights)

    return attention


def with_a_loop(q, k, v, scale=None):
    scale = 1 / np.sqrt(k.shape[-1]) if scale is None else scale
    if q.ndim > 2:
        pairs = [with_a_loop(*one, scale=scale) for one in zip(q, k, v, strict=True)]
        return tuple(np.stack(part) for part in zip(*pairs, strict=True))
    scores = np.einsum("id,jd->ij", q, k) * scale
    weights = np.exp(scores - scores.max(1)[:, None])
    weights /= weights.sum(1)[:, None]
    return np.einsum("ij,jd->id", weights, v), weights


def in_place_attention(q, k, v, scale=None):
    q *= q.shape[-1] ** -0.5 if scale is None else scale
    return own(lambda scale, d_k: 1)(q, k, v)


def with_t(q, k, v, scale=None):
    scores = q @ k.T / q.shape[-1] ** 0.5
    weights = softmax(scores)
    return weights @ v, weights


def by_size(axis, of):
    def attention(q, k, v, scale=None):
        size = {"q": q, "k": k, "v": v}[of].shape[axis]
        return own()(q, k, v, size ** -0.5 if scale is None else scale)

    return attention


def clipped(q, k, v, scale=None):
    scores = q @ k.swapaxes(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = np.exp(np.minimum(scores, 500))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v, weights


def context_only(q, k, v, scale=None):
    return own()(q, k, v, scale)[0]


RIGHT = {
    "own_attention": [own(), with_a_loop],
    "hide": [divided(0.5, 1), lambda start, rates, d_k: [start.numpy() / np.sqrt(d_k),
                                                         rates.numpy() / d_k]],
    "black_box": [logs_of_a_row, two_keys]}

WRONG = {
    "own_attention": [
        (own(lambda scale, d_k: 1 if scale is None else scale), "not divided by √d_k"),
        (own(lambda scale, d_k: 1 / d_k if scale is None else scale), "By which power of d_k"),
        (own(lambda scale, d_k: d_k ** 0.5), "instead of dividing them"),
        (by_size(-1, "v"), "the root of d_v"),
        (by_size(-2, "k"), "the root of the number of keys"),
        (by_size(0, "q"), "the root of the number of queries"),
        (by_size(1, "q"), "(The shapes of q, k and v are (2, 5, 4), (2, 7, 4), (2, 7, 8).)"),
        (own(axis=-2, shift_axis=None), "sums over the queries"),
        (own(axis=None, shift_axis=None), "the sum of the whole array"),
        (own(divide=False, shift_axis=False), "not divided by their sum"),
        (own(softly=False, divide=False, shift_axis=False), "softmax is missing"),
        (own(lambda scale, d_k: -d_k ** -0.5), "right shape and wrong numbers"),
        (own(values=False), "the weighted sum of the values is missing"),
        (lambda q, k, v, scale=None: own()(q, k, v[..., :3]), "(5, 8); yours has (5, 3)"),
        (own(flip=True), "The context should come first"),
        (context_only, "return two arrays"),
        (lambda q, k, v, scale=None: (own()(q, k, v)[0], q), "should hold the weights"),
        (in_place_attention, "changes q, k or v"),
        (with_t, "raises ValueError, at `scores = q @ k.T"),
        (own(shift_axis=False), "`exp` overflows"),
        (own(shift_axis=None), "Each row has a largest score of its own"),
        (clipped, "finite but wrong"),
        (own(lambda scale, d_k: d_k ** -0.5), "With scale=1 the program still divides"),
        (own(lambda scale, d_k: scale or d_k ** -0.5), "0 counts as False"),
        (own(lambda scale, d_k: (1 if scale is None else scale) * d_k ** -0.5),
         "With scale=1 the program still divides"),
        (own(lambda scale, d_k: d_k ** -0.5 if scale is None else 1 / max(scale, 1e-9)),
         "a scale multiplies"),
        (own(lambda scale, d_k: d_k ** -0.5 if scale is None else scale ** 2), "is wrong"),
        (lambda q, k, v, scale=None: print(end=""), "is a return missing"),
        (lambda q, k, v: own()(q, k, v), "unexpected keyword argument 'scale'")],
    "hide": [
        (divided(0.5, 0), "then q moves too far"),
        (divided(0.5, 0.5), "only one of two changes"),
        (divided(0.5, -1), "the steps are larger"),
        (divided(0, 1), "the very first loss differs"),
        (divided(1, 1), "A score is linear in q"),
        (divided(-0.5, 1), "the start is larger"),
        (lambda start, rates, d_k: (start / 32, rates / 1024), "depend on d_k"),
        (lambda start, rates, d_k: (-start / d_k ** 0.5, rates), "one positive number"),
        (lambda start, rates, d_k: (rates / d_k, start / d_k ** 0.5), "start first, then rates"),
        (in_place, "`/=` does not"),
        (lambda start, rates, d_k: start / d_k ** 0.5, "must return two things"),
        (lambda start, rates, d_k: (start.root(), rates), "raises AttributeError, at")],
    "black_box": [
        (4.0, "its name, without calling it"),
        (lambda program, d_k: d_k ** 0.5, "never calls the program"),
        (root_after_a_look, "That is √d_k, whatever"),
        (lambda program, d_k: 1 / logs_of_a_row(program, d_k), "the divisor is 1 over it"),
        (lambda program, d_k: -logs_of_a_row(program, d_k), "Only the sign is wrong"),
        (lambda program, d_k: logs_of_a_row(program, d_k) ** 2, "the divisor squared"),
        (lambda program, d_k: logs_of_a_row(program, d_k, centred=False), "*differences* of logs"),
        (lambda program, d_k: logs_of_a_row(program, d_k, np.ones((7, 7))), "Which v makes it"),
        (lambda program, d_k: logs_of_a_row(program, d_k, stretch=1e3), "shorter queries"),
        (lambda program, d_k: logs_of_a_row(program, d_k, stretch=0), "All your weights are equal"),
        (lambda program, d_k: print(end=""), "is a return missing"),
        (by_the_spread, "without any noise"),
        (lambda program, d_k: program(np.ones(d_k)), "raises TypeError, at")]}
