"""Attempts at the exercises on the scaled dot product."""

from fractions import Fraction

import numpy as np
import torch

DID = {"rand all": 7 / 144, "rand row": 4 / 144, "randn all": 1, "randn row": 1.0,
       "softmax sees": "row", "rand factor": 1.6, "randn factor": 20}


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


RIGHT = {
    "test_data": [DID, DID | {"rand all": Fraction(7, 144), "rand row": 0.028,
                              "rand factor": np.exp(0.5), "randn factor": 15},
                  DID | {"rand all": 0.05, "rand row": 0.03, "softmax sees": "Row"}],
    "hide": [divided(0.5, 1), lambda start, rates, d_k: [start.numpy() / np.sqrt(d_k),
                                                         rates.numpy() / d_k]],
    "black_box": [logs_of_a_row, two_keys]}

WRONG = {
    "test_data": [
        (DID | {"rand all": 4 / 144}, "That is the variance within a row"),
        (DID | {"rand all": 1 / 144}, "holds only if both means are 0"),
        (DID | {"rand all": 7 / 24}, "divides its variance by 6"),
        (DID | {"rand row": 7 / 144}, "shifts the row as a whole"),
        (DID | {"rand row": 3 / 144}, "not the square of the mean"),
        (DID | {"randn all": 6, "randn row": 6}, "before the division"),
        (DID | {"softmax sees": "all"}, "whatever a whole row shares"),
        (DID | {"rand factor": 1.09}, "the *root* of the variance"),
        (DID | {"randn factor": 3}, "the difference of the *scores*"),
        (DID | {"softmax sees": "rows"}, 'Answer "all" or "row".'),
        (DID | {"randn factor": "15"}, "without quotation marks"),
        (DID | {"rand row": None}, "Still open: rand row"),
        (DID["rand row"], "a dict with the keys")],
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
