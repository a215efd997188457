"""Attempts at the exercises on loops over heads."""

import numpy as np
import torch

W_Q, W_K, W_V = np.zeros((3, 6, 6))
W_Q[3:, 0] = W_Q[3:, 3] = 100          # the query of any position, in both heads
W_K[3, 0] = W_K[5, 3] = 1              # the first position's key in head 0, the last's in head 1
W_V[:3, :3] = W_V[:3, 3:] = np.eye(3)  # the values are the words
HAND = {"W_q": W_Q, "W_k": W_K, "W_v": W_V, "as one head": [0.5, 0, 0.5, 0.5, 0, 0.5]}
WORDS_K = np.zeros((6, 6))
WORDS_K[0, 0] = WORDS_K[2, 3] = 1      # the key of dog in head 0, of man in head 1
PLACES_V = np.roll(W_V, 3, axis=0)     # the values are the positions
SLICE = np.kron(np.eye(2), np.ones((3, 3)))
LOUDER = W_Q.copy()
LOUDER[:, 3] *= 2                      # as one head, only the last position gets weight
COUNTS = {"a": 1_048_576, "b": 1_048_576, "c": 552, "d": 8_388_608, "e": 360_448}

rng = np.random.default_rng(0)
x = torch.as_tensor(rng.standard_normal((2, 5, 12)))
other = x + (torch.arange(12) >= 8)
equal_slices = torch.as_tensor(rng.standard_normal((2, 5, 4))).repeat(1, 1, 3)


def uses_all(program):
    return not torch.equal(program(x)[..., :4], program(other)[..., :4])


def own_matrices(program):
    one, two, _ = program(equal_slices).chunk(3, dim=-1)
    return not torch.allclose(one, two)


def uses_all_or_raises(program):
    assert (program(x) != program(other))[..., :4].any()


def counts_the_dimensions(program):
    derivatives = torch.autograd.functional.jacobian(lambda x: program(x)[0, 0, 0], x[:1])
    return np.bool_((derivatives.abs().sum(dim=(0, 1)) > 0).all())


def heads_differ(program):
    one, two, _ = program(x).chunk(3, dim=-1)
    return not torch.allclose(one, two)


def shape(program):
    return program(x).shape == x.shape


def causal(program):
    return torch.equal(program(x)[:, :3], program(torch.cat([x[:, :3], 2 * x[:, 3:]], 1))[:, :3])


def both_at_once(program):
    return uses_all(program) or own_matrices(program)


def inverted(program):
    return not uses_all(program)


def open_still(program):
    """Return nothing so far."""
    ...  # noqa: PIE790


def raises(program):
    return program(x)[3]


RIGHT = {
    "who_bites": [HAND, {name: np.asarray(part).tolist() for name, part in HAND.items()},
                  HAND | {name: torch.tensor(HAND[name]) for name in ("W_q", "W_k", "W_v")},
                  HAND | {"W_q": LOUDER, "as one head": np.array([0, 0, 1, 0, 0, 1])}],
    "five_counts": [COUNTS, {name: float(count) for name, count in COUNTS.items()}],
    "thrifty": [[uses_all, own_matrices], (own_matrices, uses_all_or_raises),
                [counts_the_dimensions, own_matrices]]}

WRONG = {
    "who_bites": [
        (HAND | {"W_q": W_Q / 100}, "head 0 are 0.47 0.26 0.26"),
        (HAND | {"W_q": 0 * W_Q}, "all keys have the same score"),
        (HAND | {"W_k": WORDS_K}, "Head 0 follows the word dog"),
        (HAND | {"W_k": W_K[:, [3, 1, 2, 0, 4, 5]]}, "Head 0 attends to the last position"),
        (HAND | {"W_v": PLACES_V}, "the position to which it attends, and not the word"),
        (HAND | {"W_v": 2 * W_V}, "2.00 0.00 0.00 where dog is wanted"),
        (HAND | {"W_q": W_Q.T, "W_k": W_K.T, "W_v": W_V.T}, "every matrix transposed"),
        (HAND | {"W_q": W_Q * SLICE, "W_k": W_K * SLICE, "W_v": W_V * SLICE},
         "gets only a slice of x"),
        (HAND | {"W_q": np.where(W_Q > 0, np.inf, 0)}, "infinity times"),
        (HAND | {"W_v": W_V[:, :3]}, "(6, 3), not (6, 6)"),
        (HAND | {"W_v": None}, "Still open: W_v"),
        (HAND | {"as one head": None}, "The two heads are right. Still open: as one head"),
        (HAND | {"as one head": [1, 0, 0, 0, 0, 1]}, "your prediction is that of two heads"),
        (HAND | {"as one head": [1, 0, 1, 1, 0, 1]}, "sum to 2"),
        (HAND | {"as one head": [1, 0, 0, 1, 0, 0]}, "Which keys have the largest scores"),
        (HAND | {"as one head": [0.5, 0, 0.5]}, "six numbers"),
        (HAND | {"W_q": "random"}, "raises ValueError")],
    "five_counts": [
        (COUNTS | {"a": 786_432}, "W_o is the fourth matrix"),
        (COUNTS | {"b": 8_388_608}, "each an eighth as wide"),
        (COUNTS | {"c": 576}, "no matrix is square"),
        (COUNTS | {"d": 1_048_576}, "eight of them do not fit"),
        (COUNTS | {"e": 98_304}, "you left it out"),
        (COUNTS | {"e": 1_048_576, "d": None}, "cannot use 512 rows"),
        (COUNTS | {"c": 5}, "There are three matrices from 11 to 12")],
    "thrifty": [
        ([uses_all, uses_all_or_raises], "catch the same bug"),
        ([uses_all, heads_differ], "heads_differ: thrifty_heads passes"),
        ([shape, own_matrices], "shape: thrifty_heads passes"),
        ([causal, own_matrices], "causal: this is a false alarm"),
        ([both_at_once, own_matrices], "passes as soon as one of the two bugs is fixed"),
        ([inverted, own_matrices], "inverted: its result is inverted"),
        ([uses_all, open_still], "open_still is still open"),
        ([uses_all, raises], "raises IndexError, at `return program(x)[3]`"),
        (uses_all, "a list of two functions")]}
