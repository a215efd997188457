"""Attempts at the exercises on the soft lookup."""

import numpy as np
import torch

from utils.attention.numpy import softmax


def one_hot(rows, scale=(1,) * 6):
    blocks = np.asarray(scale)[:, None] * (np.asarray(rows)[..., None] == np.arange(128))
    return blocks.reshape(*np.shape(rows)[:-1], -1)


def one_hot_values(codes):
    return np.eye(128)[codes]


def of(key_points, query_points=(1,) * 6):
    return {"keys": lambda rows: one_hot(rows, key_points),
            "query": lambda query: one_hot(query, query_points), "values": one_hot_values}


def pair(keys, query):
    return {"keys": keys, "query": query, "values": one_hot_values}


def with_values(values):
    return of(POINTS) | {"values": values}


def bag(rows):
    return one_hot(rows).reshape(*np.shape(rows)[:-1], 6, 128).sum(-2)


def in_torch(rows):
    codes = torch.as_tensor(np.asarray(rows)).long()
    return torch.nn.functional.one_hot(codes, 128).flatten(-2).double()


def weighted_bag(rows):
    return one_hot(rows, POINTS).reshape(*np.shape(rows)[:-1], 6, 128).sum(-2)


POINTS = np.arange(1, 7)
DID = {"a": True, "b": True, "c": False, "d": False, "doubled": 16 / 17}


def rows_do_not_sum_to_1(softmax, scores=((0.0, 1.0),)):
    return not np.allclose(softmax(np.array(scores)).sum(axis=-1), 1)


def columns_do_not_sum_to_1(softmax):
    return not np.allclose(softmax(np.random.default_rng(0).random((5, 7))).sum(axis=0), 1)


def asserts(softmax):
    assert abs(softmax(torch.zeros(1, 2)).sum(-1) - 1).max() < 1e-9


def shape_and_range(softmax):
    weights = softmax(np.random.default_rng(0).random((5, 7)))
    return weights.shape != (5, 7) or weights.min() < 0 or weights.max() > 1


RIGHT = {
    "writer": [
        of(POINTS), of((1,) * 6, POINTS), of(POINTS ** 0.5, POINTS ** 0.5),
        pair(in_torch, lambda query: one_hot(query, POINTS).tolist()),
        with_values(lambda codes: codes[:, None] == np.arange(128)),
        with_values(lambda codes: torch.nn.functional.one_hot(torch.as_tensor(codes), 128))],
    "shift_and_stretch": [DID, DID | {"a": np.True_, "doubled": np.float32(0.94)}],
    "find_the_bug": [
        rows_do_not_sum_to_1, asserts,
        lambda given: not np.allclose(given([[1, 3]]), softmax(np.array([[1, 3]]))),
        lambda given: given(np.array([[0.0], [0.0]]))[0, 0] != 1]}

WRONG = {
    "writer": [
        (of((1,) * 6), "Every position scores 1"),
        (of(POINTS, POINTS), "1, 4, 9"),
        (of(POINTS ** 0.5), "only one side has the square roots"),
        (of(POINTS[::-1]), "reverse the order"),
        (of(np.arange(6)), "the oldest has no effect"),
        (of(2 * POINTS), "2 times the points"),
        (pair(weighted_bag, bag), "looks like “fun”"),
        (pair(bag, bag), "looks like “fun”"),
        (pair(lambda rows: rows * POINTS, lambda query: query), "a with z (122) makes 11834"),
        (pair(lambda rows: rows, lambda query: query), "not for equal ones"),
        (pair(lambda rows: rows / 128, lambda query: query / 128), "needs one-hot vectors"),
        (pair(lambda rows: rows - 64.0, lambda query: query - 64.0),
         "A character has only one number in your vectors"),
        (pair(lambda rows: one_hot(rows) + 1, lambda query: one_hot(query)), "your product is 7."),
        (pair(one_hot, bag), "A key has 768 dimensions and the query 128"),
        (pair(lambda rows: one_hot(rows) > 0, lambda query: one_hot(query) > 0),
         "A product of bools"),
        (of(POINTS) | {"query": lambda query: query.sort()}, "The function 'query' returns None"),
        (of(POINTS) | {"query": None}, "Still open: query"),
        (of(POINTS) | {"query": lambda query: query.one_hot()}, "AttributeError, at"),
        (pair(lambda rows: one_hot(rows).reshape(-1, 6, 128), bag), "side by side"),
        (with_values(lambda codes: codes), "an average of codes"),
        (with_values(lambda codes: codes[:, None]), "an average of codes"),
        (with_values(lambda codes: np.eye(256)[codes]), "yours have the shape (18, 256)"),
        (with_values(lambda codes: 6 * np.eye(128)[codes]), "first value sum to 6"),
        (with_values(lambda codes: np.eye(128)[codes - 97]), "yours is largest at 19"),
        (with_values(lambda codes: print(end="")), "The function 'values' returns None")],
    "shift_and_stretch": [
        (DID | {"a": False}, "what does the division do"),
        (DID | {"b": False}, "shared by all keys"),
        (DID | {"c": True, "d": True}, "Which β is this"),
        (DID | {"doubled": 0.8}, "nothing at all"),
        (DID | {"doubled": "16/17"}, "Write one number, without"),
        (DID | {"doubled": np.array([16 / 17, 1 / 17])}, "Write one number, without"),
        (DID | {"a": 1}, "Answer True or False"),
        (DID | {"doubled": 0.64}, "do not sum to 1"),
        (DID | {"doubled": 0.89}, "from 4 : 1 to 8 : 1"),
        (DID | {"doubled": 0.5}, "exp of the difference"),
        (DID | {"doubled": None}, "Still open: doubled")],
    "find_the_bug": [
        (lambda given: True, "never calls"),
        (False, "its name, without calling it"),
        (lambda given: (given(np.zeros((1, 2))) > 0).any(), "a false alarm"),
        (columns_do_not_sum_to_1, "the sums that the bug gets right"),
        (lambda given: not rows_do_not_sum_to_1(given), "Your result is inverted"),
        (shape_and_range, "you check what is right about them"),
        (lambda given: rows_do_not_sum_to_1(given, (0.0, 1.0)), "If scores have a single axis"),
        (lambda given: rows_do_not_sum_to_1(given, np.zeros((3, 3))),
         "on your scores, with shape (3, 3)"),
        (lambda given: rows_do_not_sum_to_1(given, np.eye(3)), "on your scores, with shape (3, 3)"),
        (lambda given: rows_do_not_sum_to_1(given, np.arange(35.0).reshape(5, 7)),
         "with 35 scores. Fewer are enough"),
        (lambda given: given(np.linspace(0, 1, 11)[None]).sum() != 1,
         "because of a rounding error"),
        (lambda given: given(np.zeros((1, 2))).sum(dim=-1) != 1, "raises TypeError, at")]}
