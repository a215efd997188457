"""Attempts at the exercises on what attention does."""

import math

import numpy as np
import torch


def attend(queries, keys, values, axis="keys", scale=1.0, power=math.exp, divide=True):
    exps = [[power(scale * sum(a * b for a, b in zip(query, key, strict=True))) for key in keys]
            for query in queries]
    if axis == "queries":
        totals = [[sum(column) for column in zip(*exps, strict=True)]] * len(exps)
    elif axis == "all":
        totals = [[sum(map(sum, exps))] * len(keys)] * len(exps)
    else:
        totals = [[sum(row)] * len(row) for row in exps]
    weights = [[e / t if divide else e for e, t in zip(*pair, strict=True)]
               for pair in zip(exps, totals, strict=True)]
    return [[sum(w * value[c] for w, value in zip(row, values, strict=True))
             for c in range(len(values[0]))] for row in weights]


def with_numpy(queries, keys, values):
    exps = np.exp(np.array(queries) @ np.array(keys).T)
    return exps / exps.sum(axis=1, keepdims=True) @ np.array(values)


def weights_only(queries, keys, values):
    return attend(queries, keys, np.eye(len(keys)).tolist())


def queries_for_keys(queries, keys, values):
    return attend([queries[j] for j in range(len(keys))], keys, values)


RIGHT = {
    "steer": [(-3, 0), np.array([-2.5, 1.0]), torch.tensor([-4.0, -1.0])],
    "loops": [attend, with_numpy],
}
WRONG = {
    "steer": [
        ((-1, 0), "weight is only 0.67"),
        ((0, 5), "which element of the query tells “the” from “bank”"),
        ((0, 0), "Equal scores give equal weights"),
        ((3, 0), "“river” has the largest score"),
        ((1, 3), "“bank” has the largest score"),
        ((1, 0, 0), "the shape (3,)")],
    "loops": [
        (weights_only, "The last step is missing"),
        (lambda q, k, v: attend(q, k, v, axis="queries"), "sums over the queries"),
        (lambda q, k, v: attend(q, k, v, axis="all"), "over all queries and keys"),
        (lambda q, k, v: attend(q, k, v, divide=False), "not divided by their sum"),
        (lambda q, k, v: attend(q, k, v, power=float, divide=False), "exponentials and the div"),
        (lambda q, k, v: attend(q, k, v, power=float), "without taking exponentials first"),
        (lambda q, k, v: attend(q, k, v, scale=len(q[0]) ** -0.5), "You divide the scores by √d"),
        (lambda q, k, v: attend(q, k, v, power=lambda x: 2 ** x), "right shape and wrong numbers"),
        (lambda q, k, v: attend(q, k[:len(q)], v[:len(q)]), "only as many keys as there are"),
        (queries_for_keys, "There are 4 queries, but 6 keys and values"),
        (lambda q, k, v: attend(q, k, v)[0], "should have the shape (4, 2)"),
        (lambda q, k, v: print(end=""), "is a return missing")],
}
