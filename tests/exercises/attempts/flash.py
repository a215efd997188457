"""Attempts at the exercises on flash attention."""

import numpy as np
import torch

UP, DOWN = [0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]
FORGETFUL = {"shows": UP, "hides": DOWN, "sum to 1": False}


def merge_sums(a, b):
    largest = np.maximum(a[0], b[0])
    base = np.where(np.isneginf(largest), 0, largest)
    one, two = np.exp(a[0] - base), np.exp(b[0] - base)
    return (largest, one * a[1] + two * b[1], one[:, None] * a[2] + two[:, None] * b[2])


def row_by_row(a, b):
    rows = []
    for m, s, w, n, t, x in zip(*a, *b, strict=True):
        if m < n:
            m, s, w, n, t, x = n, t, x, m, s, w
        shrink = np.exp(n - m) if n > -np.inf else 0.0
        rows.append((m, s + shrink * t, w + shrink * x))
    return [np.array(column) for column in zip(*rows, strict=True)]


def scaled(change):
    """Return merge_sums with other factors: change(m_a, m_b, largest) -> (one, two)."""
    def merge(a, b):
        largest = np.maximum(a[0], b[0])
        one, two = change(a[0], b[0], largest)
        return (largest, one * a[1] + two * b[1], one[:, None] * a[2] + two[:, None] * b[2])
    return merge


def divided(a, b):
    largest, total, weighted = merge_sums(a, b)
    return largest, np.ones_like(total), weighted / np.where(total == 0, 1, total)[:, None]


def weighted_divided(a, b):
    largest, total, weighted = merge_sums(a, b)
    return largest, total, weighted / np.where(total == 0, 1, total)[:, None]


def as_contexts(a, b):
    largest, total, _ = merge_sums(a, b)
    shrink = np.exp(a[0] - largest), np.exp(b[0] - largest)
    contexts = [x[1][:, None] * x[2] * s[:, None] for x, s in zip((a, b), shrink, strict=True)]
    return largest, total, sum(contexts) / total[:, None]


def only_total(a, b):
    largest, total, _ = merge_sums(a, b)
    return largest, total, a[2] + b[2]


def half_weighted(a, b):
    largest, total, weighted = merge_sums(a, b)
    return largest, total, 0.5 * weighted


def in_place(a, b):
    a[1][:] = merge_sums(a, b)[1]
    return a[0], a[1], a[2]


def unshifted(a, b):
    largest = np.maximum(a[0], b[0])
    one, two, base = np.exp(a[0]), np.exp(b[0]), np.exp(largest)
    return (largest, (one * a[1] + two * b[1]) / base,
            (one[:, None] * a[2] + two[:, None] * b[2]) / base[:, None])


def careless(a, b):
    largest = np.maximum(a[0], b[0])
    one, two = np.exp(a[0] - largest), np.exp(b[0] - largest)
    return (largest, one * a[1] + two * b[1], one[:, None] * a[2] + two[:, None] * b[2])


def window_tiles(n, tile, left):
    for i in range(0, n, tile):
        rows = slice(i, min(i + tile, n))
        for j in range(max(0, i - left) // tile * tile, rows.stop, tile):
            yield rows, slice(j, min(j + tile, n))


def as_list(n, tile, left):
    return [(slice(i, min(i + tile, n)), slice(j, min(j + tile, n)))
            for i in range(0, n, tile)
            for j in range(max(i - left, 0) // tile * tile, i + 1, tile)]


def unaligned(n, tile, left):
    for i in range(0, n, tile):
        stop = min(i + tile, n)
        for j in range(max(0, i - left), stop, tile):
            yield slice(i, stop), slice(j, min(j + tile, stop))


def every(n, tile, left):
    for i in range(0, n, tile):
        for j in range(0, n, tile):
            yield slice(i, min(i + tile, n)), slice(j, min(j + tile, n))


def causal(n, tile, left):
    for i in range(0, n, tile):
        for j in range(0, i + 1, tile):
            yield slice(i, min(i + tile, n)), slice(j, min(j + tile, n))


def filtered(n, tile, left):
    for i in range(0, n, tile):
        for j in range(0, n, tile):
            if j <= i and j + tile - 1 >= i - left:
                yield slice(i, min(i + tile, n)), slice(j, min(j + tile, n))


def one_tile_short(n, tile, left):
    for i in range(0, n, tile):
        for j in range(max(0, i + tile - 1 - left) // tile * tile, i + 1, tile):
            yield slice(i, min(i + tile, n)), slice(j, min(j + tile, n))


def one_tile_long(n, tile, left):
    for i in range(0, n, tile):
        for j in range(max(0, i - left - tile) // tile * tile, i + 1, tile):
            yield slice(i, min(i + tile, n)), slice(j, min(j + tile, n))


def over_the_edge(n, tile, left):
    for rows, columns in window_tiles(n, tile, left):
        yield slice(rows.start, rows.start + tile), slice(columns.start, columns.start + tile)


def twice(n, tile, left):
    yield from window_tiles(n, tile, left)
    yield from window_tiles(n, tile, left)


def corners(n, tile, left):
    for rows, columns in window_tiles(n, tile, left):
        yield rows.start, columns.start


def strips(n, tile, left):
    for i in range(0, n, tile):
        yield slice(i, min(i + tile, n)), slice(max(0, i - left), min(i + tile, n))


FOUND = {"tiles": window_tiles, "how many": 310}

RIGHT = {
    "merge_sums": [merge_sums, row_by_row],
    "forgot_to_shrink": [FORGETFUL, FORGETFUL | {"shows": np.array([0.0, -1, -2, 9, 1, 2])},
                         FORGETFUL | {"shows": torch.arange(6), "hides": (9.0, 1, 2, 8, 3, 4)}],
    "window_tiles": [FOUND, FOUND | {"tiles": as_list}, {"tiles": unaligned, "how many": 310.0}]}

WRONG = {
    "merge_sums": [
        (scaled(lambda m, n, largest: (1 + 0 * m, 1 + 0 * n)), "You add the sums as they are"),
        (only_total, "You add the sums as they are"),
        (scaled(lambda m, n, largest: (np.exp(m - n), 1 + 0 * n)),
         "right where b has the larger maximum, but wrong where a has it"),
        (scaled(lambda m, n, largest: (np.exp(m - largest), 1 + 0 * n)),
         "right where b has the larger maximum"),
        (scaled(lambda m, n, largest: (1 + 0 * m, np.exp(n - largest))),
         "right where a has the larger maximum"),
        (scaled(lambda m, n, largest: (np.exp(largest - m), np.exp(largest - n))),
         "larger than both totals together"),
        (lambda a, b: (a[0] + b[0], *merge_sums(a, b)[1:]), "largest is wrong"),
        (divided, "divide too early"),
        (weighted_divided, "treat weighted as a context"),
        (as_contexts, "treat weighted as a context"),
        (half_weighted, "weighted is wrong"),
        (unshifted, "something overflows"),
        (careless, "−∞ minus −∞ is NaN"),
        (in_place, "changes a or b in place"),
        (lambda a, b: merge_sums(a, b)[2], "must return a state"),
        (lambda a, b: (*merge_sums(a, b)[:2], a[2].sum(axis=1)), "(5,), (5,), (5, 3); yours is"),
        (lambda a, b: np.exp(a[0] - b[0]) * a[2], "raises ValueError, at")],
    "forgot_to_shrink": [
        (FORGETFUL | {"shows": DOWN}, "in the first tile, so nothing has to shrink"),
        (FORGETFUL | {"hides": UP}, "hides: its output is wrong by"),
        (FORGETFUL | {"shows": [0, 0.01, 0.02, 0.03, 0.04, 0.05]}, "wrong by only 0.0"),
        (FORGETFUL | {"hides": [1, 1, 1, 1, 1, 1]}, "must all be different"),
        (FORGETFUL | {"shows": [1, 2, 3]}, "six finite numbers"),
        (FORGETFUL | {"sum to 1": True}, "Set all values to the same number"),
        (FORGETFUL | {"sum to 1": None}, "Still open: sum to 1"),
        (FORGETFUL | {"sum to 1": "no"}, "Answer True or False"),
        (UP, "with the keys")],
    "window_tiles": [
        (FOUND | {"tiles": every}, "after the query or before its window"),
        (FOUND | {"tiles": causal}, "their keys are all before the window"),
        (FOUND | {"tiles": filtered}, "you test tiles that you do not need"),
        (FOUND | {"tiles": one_tile_short}, "but no tile contains this pair"),
        (FOUND | {"tiles": one_tile_long}, "their keys are all before the window"),
        (FOUND | {"tiles": over_the_edge}, "a slice must be within 0 … 22"),
        (FOUND | {"tiles": twice}, "are in several tiles"),
        (FOUND | {"tiles": corners}, "each tile must be a pair of slices"),
        (FOUND | {"tiles": strips}, "is larger than 4 by 4"),
        (FOUND | {"tiles": lambda n, tile, left: 310}, "or return a list of them, not int"),
        (FOUND | {"how many": 2080}, "the number for a causal mask"),
        (FOUND | {"how many": 320}, "the first rows have fewer keys"),
        (FOUND | {"how many": 256}, "That is four a row"),
        (FOUND | {"how many": 7}, "How many tiles contain them?"),
        (FOUND | {"how many": None}, "Still open: how many"),
        (window_tiles, "with the keys")]}
