"""The exercise "From sentences to a batch" of the chapter on masks."""

import numpy as np

from ..checks import to_numpy
from ..masks import causal

CASES = ([[4, 0, 7], [5]], [[0, 3], [1, 2, 0, 6, 5], [2, 2, 9]], [[8, 1], [0, 4]])


def batch(program):
    """Judge a function from lists of token numbers to (tokens (b, n), keep (b, n, n))."""
    for sentences in CASES:
        got = program([list(sentence) for sentence in sentences])
        if not isinstance(got, tuple | list) or len(got) != 2:
            return "It must return two arrays: the tokens and keep."
        tokens, keep = (np.asarray(to_numpy(part)) for part in got)
        lengths = np.array([len(sentence) for sentence in sentences])
        message = _tokens(tokens, sentences, lengths) or _form(keep, tokens.shape)
        if message := message or _mask(keep, tokens, lengths):
            return f"{message} (The sentences were {sentences}.)"
    return ""


def _padded(sentences, n, front=True, number=0):
    rows = [[number] * (n - len(one)) + one if front else one + [number] * (n - len(one))
            for one in sentences]
    return np.array(rows)


def _tokens(tokens, sentences, lengths):
    """Return what is wrong with the array of tokens, or ""."""
    n = lengths.max()
    if tokens.shape != (len(sentences), n):
        return (f"The tokens have the shape {tokens.shape}, but there are {len(sentences)} "
                f"sentences, and the longest has {n} tokens.")
    if (tokens == _padded(sentences, n)).all():
        return ""
    if (tokens == _padded(sentences, n, front=False)).all():
        return "The padding stands at the end. Put it in front, so that all sentences end together."
    short = int(lengths.argmin())
    if (tokens == _padded(sentences, n, number=tokens[short, 0])).all():
        return f"The padding is {tokens[short, 0]}, not 0."
    wrong = int(np.flatnonzero((tokens != _padded(sentences, n)).any(axis=1))[0])
    return f"Row {wrong} of the tokens is {tokens[wrong].tolist()}."


def _form(keep, shape):
    """Return what is wrong with the shape and dtype of keep, or ""."""
    b, n = shape
    if keep.shape != (b, n, n):
        why = {(n, n): ": that is one mask for all sentences",
               (b, n): ": that says nothing of the queries",
               (b, 1, n): ": all queries have the same mask, so it is not causal"}
        return f"keep has the shape {keep.shape}, not ({b}, {n}, {n}){why.get(keep.shape, '')}."
    if keep.dtype != bool:
        return f"keep must be bool; yours is {keep.dtype}, so it would be *added* to the scores."
    return ""


def _mask(keep, tokens, lengths):
    """Return what is wrong with keep in the rows of queries that are no padding, or ""."""
    n = len(tokens[0])
    real = np.arange(n) >= n - lengths[:, None]  # (b, n)
    past = np.broadcast_to(causal(n), keep.shape)
    right = past & real[:, None]
    if (keep == past).all() and not real.all():
        return "keep is causal, but it lets queries attend to the padding in front of them."
    known = (
        (right, ""),
        (past & (tokens != 0)[:, None], "A real token 0 is masked, as if it were padding. Go by "
                                        "the lengths, not by the numbers."),
        (past & (np.arange(n) < lengths[:, None])[:, None],
         "keep masks the end of each row, but the padding stands in front."),
        (past, "keep lets real queries attend to the padding in front: you masked padded "
               "*queries*. Mask padded keys."),
        (np.broadcast_to(real[:, None], keep.shape),
         "keep masks the padding, but it is not causal: queries attend to later tokens."),
        (past & ~np.eye(n, dtype=bool) & real[:, None],
         "A query may attend to its own token, too."),
        (~right, "True must mean that the query may attend: yours is inverted."),
        (past | real[:, None], "| allows more pairs. A key must be allowed by both masks."))
    for other, message in known:
        if (keep == other)[real].all():
            return message
    b, i, j = np.argwhere((keep != right) & real[:, :, None])[0]
    return (f"In sentence {b}, query {i} {'may' if right[b, i, j] else 'may not'} attend to key "
            f"{j}; yours says the opposite.")
