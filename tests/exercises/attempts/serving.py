"""Attempts at the exercises on serving."""

import numpy as np

from utils.attention.ragged import starts, token_positions


def by_cumsum(lengths, held):
    first = np.cumsum(lengths) - lengths
    return np.arange(sum(lengths)) + np.repeat(held - first, lengths)


def by_sequence(lengths, held):
    return np.concatenate([np.arange(h, h + n) for h, n in zip(held, lengths, strict=True)])


def by_tensors(lengths, held):
    return token_positions(starts(lengths), held).numpy()


def moved(change):
    """Return new_positions that computes change(row, first, lengths, held)."""
    def new_positions(lengths, held):
        first = np.cumsum(lengths) - lengths
        return change(np.arange(sum(lengths)), first, lengths, held)
    return new_positions


def last_first(lengths, held):
    return by_cumsum(lengths, held)[::-1]


def three_cases(table, length, users, free, size):
    table, users, free = [*table], [*users], [*free]
    full = length % size == 0
    if full or users[table[-1]] > 1:
        if not full:
            users[table.pop()] -= 1
        block = free.pop(0)
        users[block] += 1
        table.append(block)
    return table, users, free


def new_lists(table, length, users, free, size):
    if length % size and users[table[-1]] == 1:
        return table, users, free
    rest, users = (table[:-1] if length % size else table), list(users)
    if length % size:
        users[table[-1]] -= 1
    users[free[0]] = 1
    return [*rest, free[0]], users, free[1:]


def never_copies(table, length, users, free, size):
    table, users, free = [*table], [*users], [*free]
    if length % size == 0:
        table.append(free.pop(0))
        users[table[-1]] = 1
    return table, users, free


def copies_full_blocks(table, length, users, free, size):
    table, users, free = [*table], [*users], [*free]
    if table and users[table[-1]] > 1:
        users[table[-1]] -= 1
        table[-1] = free.pop(0)
        users[table[-1]] = 1
    elif length % size == 0:
        table.append(free.pop(0))
        users[table[-1]] = 1
    return table, users, free


def appends_the_copy(table, length, users, free, size):
    table, users, free = [*table], [*users], [*free]
    if length % size == 0 or users[table[-1]] > 1:
        table.append(free.pop(0))
        users[table[-1]] = 1
    return table, users, free


def keeps_the_count(table, length, users, free, size):
    given = list(users)
    table, users, free = three_cases(table, length, users, free, size)
    return table, [max(one, other) for one, other in zip(users, given, strict=True)], free


def always_a_block(table, length, users, free, size):
    users = [*users]
    users[free[0]] = 1
    return [*table, free[0]], users, free[1:]


def only_shared(table, length, users, free, size):
    return [*table], [*users], [*free]


def changes_the_free_list(table, length, users, free, size):
    table, users = [*table], [*users]
    if length % size == 0:
        table.append(free.pop(0))
        users[table[-1]] = 1
    return table, users, free


def counts_no_user(table, length, users, free, size):
    new, counted, free = three_cases(table, length, users, free, size)
    return new, [*users] if new != table else counted, free


def keeps_it_free(table, length, users, free, size):
    return (*three_cases(table, length, users, free, size)[:2], [*free])


def from_the_end(table, length, users, free, size):
    table, users, _ = three_cases(table, length, users, free[::-1], size)
    return table, users, [block for block in free if block not in table]


BLOCKS = {"blocks without sharing": 690, "blocks with sharing": 132,
          "prompt tokens without sharing": 10_000, "prompt tokens with sharing": 1000}
RIGHT = {
    "new_positions": [by_cumsum, by_sequence, by_tensors],
    "blocks": [BLOCKS, {name: float(n) for name, n in BLOCKS.items()}],
    "one_more": [three_cases, new_lists,
                 lambda *given: list(map(list, three_cases(*given)))],
}
WRONG = {
    "new_positions": [
        (moved(lambda row, first, lengths, held: row - np.repeat(first, lengths)),
         "Each chunk begins at 0 again"),
        (moved(lambda row, first, lengths, held: row), "counts along the row"),
        (moved(lambda row, first, lengths, held: row + np.repeat(held, lengths)),
         "do not begin anew"),
        (lambda lengths, held: by_cumsum(lengths, held) + 1, "1 too large"),
        (lambda lengths, held: by_cumsum(lengths, held) - 1, "1 too small"),
        (lambda lengths, held: by_cumsum(lengths, held[:1].repeat(len(held))),
         "`held` of the first sequence for all"),
        (lambda lengths, held: np.repeat(held, lengths), "stand behind one another"),
        (last_first, "[4, 5, 6, 2, 0, 1, 2, 3], not [3, 2, 1"),
        (lambda lengths, held: held + lengths, "8 positions, one for each token"),
        (lambda lengths, held: by_cumsum(lengths, held) / 1.0, "integers, not float64"),
        (lambda lengths, held: by_cumsum(held, lengths), "must return 8 positions"),
        (4, "asks for a function"),
    ],
    "blocks": [
        (BLOCKS | {"blocks without sharing": 687.5}, "Blocks are whole"),
        (BLOCKS | {"blocks without sharing": 700}, "goes on in it"),
        (BLOCKS | {"blocks without sharing": 69}, "one request"),
        (BLOCKS | {"blocks with sharing": 133}, "last writer"),
        (BLOCKS | {"blocks with sharing": 122}, "992 to 999"),
        (BLOCKS | {"blocks with sharing": 690}, "Nothing is shared"),
        (BLOCKS | {"blocks with sharing": 100}, "fill 62 blocks and half"),
        (BLOCKS | {"prompt tokens without sharing": 1000}, "each request computes its prompt"),
        (BLOCKS | {"prompt tokens with sharing": 992}, "also what does not fill a block"),
        (BLOCKS | {"prompt tokens with sharing": None}, "Still open: prompt tokens with sharing"),
        ([690, 132], "a dict with the keys"),
    ],
    "one_more": [
        (never_copies, "copy on write"),
        (copies_full_blocks, "so it needs no copy"),
        (appends_the_copy, "takes the place of the shared block"),
        (keeps_the_count, "one user fewer"),
        (always_a_block, "nothing changes"),
        (only_shared, "needs a new block"),
        (changes_the_free_list, "changes its arguments"),
        (counts_no_user, "has 1 user, not 0"),
        (keeps_it_free, "the free list must be [1], not [3, 1]"),
        (from_the_end, "must become"),
        (lambda table, length, users, free, size: table, "three lists"),
        (lambda table, length, users, free, size: (table, users), "three lists"),
    ],
}
