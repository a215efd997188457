"""Attempts at the exercises on many machines."""

import numpy as np
import torch


def contiguous_heads(rank, p, n_heads, d_head):
    width = n_heads * d_head // p
    columns = list(range(rank * width, (rank + 1) * width))
    return [side * n_heads * d_head + c for side in range(3) for c in columns], columns


def dealt_heads(rank, p, n_heads, d_head):
    columns = [h * d_head + c for h in range(rank, n_heads, p) for c in range(d_head)]
    return tuple(side * n_heads * d_head + c for side in range(3) for c in columns), tuple(columns)


def by_chunks(rank, p, n_heads, d_head):
    rows = torch.arange(3 * n_heads * d_head).view(3, p, -1)[:, rank]
    return rows.flatten(), rows[0]


def in_arrays(rank, p, n_heads, d_head):
    columns = np.split(np.arange(n_heads * d_head), p)[rank]
    return [np.concatenate([columns + n * n_heads * d_head for n in range(3)]), columns]


def as_they_lie(rank, p, n_heads, d_head):
    width = n_heads * d_head // p
    rows = list(range(3 * rank * width, 3 * (rank + 1) * width))
    return rows, list(range(rank * width, (rank + 1) * width))


def head_by_head(rank, p, n_heads, d_head):
    own = range(rank * n_heads // p, (rank + 1) * n_heads // p)
    rows = [side * n_heads * d_head + h * d_head + c for h in own for side in range(3)
            for c in range(d_head)]
    return rows, [h * d_head + c for h in own for c in range(d_head)]


def one_projection(rank, p, n_heads, d_head):
    _, columns = contiguous_heads(rank, p, n_heads, d_head)
    return columns, columns


def torn_heads(rank, p, n_heads, d_head):
    columns = list(range(rank, n_heads * d_head, p))
    return [side * n_heads * d_head + c for side in range(3) for c in columns], columns


def always_the_first(rank, p, n_heads, d_head):
    return contiguous_heads(0, p, n_heads, d_head)


def all_columns(rank, p, n_heads, d_head):
    return contiguous_heads(rank, p, n_heads, d_head)[0], list(range(n_heads * d_head))


def columns_of_the_next(rank, p, n_heads, d_head):
    return (contiguous_heads(rank, p, n_heads, d_head)[0],
            contiguous_heads((rank + 1) % p, p, n_heads, d_head)[1])


def values_of_the_next(rank, p, n_heads, d_head):
    rows, columns = contiguous_heads(rank, p, n_heads, d_head)
    others = contiguous_heads((rank + 1) % p, p, n_heads, d_head)[0]
    third = len(columns)
    return rows[:2 * third] + others[2 * third:], columns


def keys_backwards(rank, p, n_heads, d_head):
    rows, columns = contiguous_heads(rank, p, n_heads, d_head)
    third = len(columns)
    return rows[:third] + rows[third:2 * third][::-1] + rows[2 * third:], columns


def columns_backwards(rank, p, n_heads, d_head):
    rows, columns = contiguous_heads(rank, p, n_heads, d_head)
    return rows, columns[::-1]


def too_far(rank, p, n_heads, d_head):
    rows, columns = contiguous_heads(rank + 1, p, n_heads, d_head)
    return rows, columns


def slices(rank, p, n_heads, d_head):
    width = n_heads * d_head // p
    return slice(0, 3 * width), slice(0, width)


HANDED = {"GiB joined": 4, "GiB not joined": 6, "sixteen": "same"}


RIGHT = {
    "rows_of_a_rank": [contiguous_heads, dealt_heads, by_chunks, in_arrays],
    "handed_over": [HANDED, HANDED | {"GiB joined": 4.0, "sixteen": "Same"}],
}
WRONG = {
    "rows_of_a_rank": [
        (as_they_lie, "for rank 0: chunk(3) splits its rows into q, k and v, but here they are "
                      "rows of q, q, k"),
        (head_by_head, "into q, k and v, but here they are rows of qk,"),
        (one_projection, "enough for one projection, but W_qkv contains three"),
        (torn_heads, "mix several heads: the 3 dimensions of a head"),
        (always_the_first, "head 0 is on ranks [0, 1]"),
        (all_columns, "a fair share is 18 rows and 6 columns, not 18 and 12"),
        (columns_of_the_next, "the columns of W_o do not belong to the heads"),
        (values_of_the_next, "its q and its v belong to different heads"),
        (keys_backwards, "belong to the same heads, but in different orders"),
        (columns_backwards, "the right ones, but in another order"),
        (too_far, "rows must be 0 to 35 and columns 0 to 11"),
        (slices, "must return two lists of integers"),
        (lambda *a: contiguous_heads(*a)[0], "must return two lists, (rows, columns)"),
    ],
    "handed_over": [
        (HANDED | {"GiB joined": 2}, "Count forward and backward"),
        (HANDED | {"GiB joined": 6}, "three separate projections"),
        (HANDED | {"GiB joined": 0.5}, "whole outputs, not an eighth"),
        (HANDED | {"GiB joined": 4096}, "in MiB"),
        (HANDED | {"GiB joined": 7}, "The question is what it hands over"),
        (HANDED | {"GiB joined": 3}, "each of one output, 4096 · 4096 numbers"),
        (HANDED | {"GiB not joined": 4}, "That is for q, k and v joined"),
        (HANDED | {"GiB not joined": 12}, "Only the backward pass of attention"),
        (HANDED | {"GiB not joined": 8}, "How many has the feed-forward layer?"),
        (HANDED | {"GiB not joined": 7}, "three all-reduces instead of one"),
        (HANDED | {"sixteen": "double"}, "how much does one rank?"),
        (HANDED | {"sixteen": "half"}, "how large is the output"),
    ],
}
