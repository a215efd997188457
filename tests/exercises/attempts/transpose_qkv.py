"""Attempts at the exercises on transpose_qkv."""

import numpy as np

from utils.frameworks import tensorflow

tf = tensorflow()


def fold(X, num_heads):
    batch, n, width = X.shape
    X = tf.reshape(X, (batch, n, num_heads, width // num_heads))
    return tf.reshape(tf.transpose(X, perm=(2, 0, 1, 3)), (num_heads * batch, n, -1))


def unfold(X, num_heads):
    X = tf.reshape(X, (num_heads, -1, *X.shape[1:]))
    X = tf.transpose(X, perm=(1, 2, 0, 3))
    return tf.reshape(X, (*X.shape[:2], -1))


def folding(*perm):
    def program(X, num_heads):
        X = np.reshape(X, (*X.shape[:2], num_heads, -1)).transpose(perm)
        return X.reshape(6, 5, 4)
    return program


def unfolding(*perm):
    return lambda X, num_heads: np.reshape(X, (num_heads, -1, *X.shape[1:])).transpose(
        perm).reshape(2, 5, 12)


def page_unfold(X, num_heads):
    return np.reshape(X, (-1, num_heads, *X.shape[1:])).transpose(0, 2, 1, 3).reshape(2, 5, 12)


def full_mask(keep, b, h, i, j):
    """Return the mask with all its axes, joined to (b * h, i, j)."""
    return np.broadcast_to(keep, (b, h, i, j)).reshape(b * h, i, j)


def mask_heads_first(keep, b, h, i, j):
    return np.broadcast_to(keep, (b, h, i, j)).swapaxes(0, 1).reshape(b * h, i, j)


def mask_of_head_0(keep, b, h, i, j):
    return np.repeat(np.broadcast_to(keep, (b, h, i, j))[:, 0], h, axis=0)


def mask_of_example_0(keep, b, h, i, j):
    return np.tile(np.broadcast_to(keep, (b, h, i, j))[0], (b, 1, 1))


def any_attention(f, q, k, v, num_heads, keep, mask=full_mask, split=(0, 2, 1, 3), merge=True,
                  interleaved=False, unfolded=True):
    """Return multi-head (context, weights) by one call of f; the options are mistakes."""
    def fold(side):
        b, n, e = side.shape
        if interleaved:
            return side.reshape(b, n, -1, num_heads).transpose(0, 3, 1, 2).reshape(
                b * num_heads, n, -1)
        return side.reshape(b, n, num_heads, -1).transpose(split).reshape(b * num_heads, n, -1)

    sizes = len(q), num_heads, q.shape[1], k.shape[1]
    context, weights = f(fold(q), fold(k), fold(v), mask(keep, *sizes))
    if split[0] == 2:
        context = context.reshape(num_heads, *q.shape[:2], -1).transpose(1, 0, 2, 3)
        weights = weights.reshape(num_heads, len(q), *sizes[2:]).transpose(1, 0, 2, 3)
    context = context.reshape(len(q), num_heads, q.shape[1], -1)
    context = (context.transpose(0, 2, 1, 3) if merge else context).reshape(*q.shape[:2], -1)
    return context, weights.reshape(sizes) if unfolded else weights


def any_mistake(**options):
    def multi_head(f, q, k, v, num_heads, keep):
        return any_attention(f, q, k, v, num_heads, keep, **options)
    return multi_head


def by_loop(f, q, k, v, num_heads, keep):
    full = np.broadcast_to(keep, (2, num_heads, 5, 7))
    sides = [np.split(side, num_heads, axis=-1) for side in (q, k, v)]
    found = [f(*head, full[:, h]) for h, head in enumerate(zip(*sides, strict=True))]
    return (np.concatenate([context for context, _ in found], axis=-1),
            np.stack([weights for _, weights in found], axis=1))


def not_folded(f, q, k, v, num_heads, keep):
    return f(q.reshape(2, 5, num_heads, -1).swapaxes(1, 2), k, v, keep)


def queries_only(f, q, k, v, num_heads, keep):
    q = q.reshape(2, 5, num_heads, -1).swapaxes(1, 2).reshape(6, 5, 4)
    return f(q, k, v, full_mask(keep, 2, 3, 5, 7))


def one_size(f, q, k, v, num_heads, keep):
    q, k, v = (side.reshape(2, -1, num_heads, 4).swapaxes(1, 2).reshape(6, -1, 4)
               for side in (q, k, v))
    return f(q, k, v, full_mask(keep, 2, 3, 5, 7))


def still_folded(f, q, k, v, num_heads, keep):
    rows = [side.reshape(2, side.shape[1], num_heads, -1).swapaxes(1, 2).reshape(
        6, side.shape[1], -1) for side in (q, k, v)]
    return f(*rows, full_mask(keep, 2, 3, 5, 7))


def context_only(*given):
    return any_attention(*given)[0]


def nothing_back(*given):
    any_attention(*given)


def no_context(f, q, k, v, num_heads, keep):
    return v[:, :5], np.zeros((2, 3, 5, 7))


def weights_mixed(*given):
    context, weights = any_attention(*given)
    return context, weights.reshape(3, 2, 5, 7).swapaxes(0, 1)


def other_weights(*given):
    context, weights = any_attention(*given)
    return context, np.zeros_like(weights)


def in_tensorflow(f, q, k, v, num_heads, keep):
    folded = [tf.reshape(tf.transpose(tf.reshape(side, (2, side.shape[1], num_heads, -1)),
                                      (0, 2, 1, 3)), (6, side.shape[1], -1)) for side in (q, k, v)]
    mask = tf.reshape(tf.broadcast_to(keep, (2, num_heads, 5, 7)), (6, 5, 7))
    context, weights = f(*folded, mask)
    context = tf.transpose(tf.reshape(context, (2, num_heads, 5, -1)), (0, 2, 1, 3))
    return tf.reshape(context, (2, 5, -1)), tf.reshape(weights, (2, num_heads, 5, 7))


HEADS_FIRST = {"fold": fold, "unfold": unfold, "copy": "tile", "wrong rows": [1, 4]}

RIGHT = {
    "any_attention": [any_attention, in_tensorflow,
                      any_mistake(mask=mask_heads_first, split=(2, 0, 1, 3))],
    "heads_first": [HEADS_FIRST,
                    HEADS_FIRST | {"fold": folding(2, 0, 1, 3), "unfold": unfolding(1, 2, 0, 3),
                                   "copy": "tf.tile", "wrong rows": np.array([4, 1])}]}

WRONG = {
    "any_attention": [
        (any_mistake(mask=mask_heads_first), "the mask of another row"),
        (any_mistake(split=(2, 0, 1, 3)), "mask and rows must agree"),
        (any_mistake(mask=mask_of_head_0), "the mask of head 0"),
        (any_mistake(mask=mask_of_example_0), "the mask of example 0"),
        (any_mistake(mask=lambda keep, *sizes: keep), "a mask of shape (2, 1, 1, 7) for 6 rows"),
        (any_mistake(mask=lambda keep, *sizes: np.repeat(keep[:, 0], 3, axis=0)),
         "a mask of shape (6, 1, 7) for 6 rows: it needs (6, 5, 7)"),
        (any_mistake(mask=lambda keep, *sizes: None), "f needs the mask, too"),
        (any_mistake(mask=lambda keep, *sizes: np.full((6, 5, 7), True)), "masks no key"),
        (any_mistake(mask=lambda keep, *sizes: ~full_mask(keep, *sizes)), "inverted"),
        (any_mistake(split=(0, 1, 2, 3)), "torn on the way in"),
        (any_mistake(merge=False), "torn on the way out"),
        (any_mistake(split=(0, 1, 2, 3), merge=False), "both transposes are missing"),
        (any_mistake(interleaved=True), "a head's dimensions are neighbours"),
        (any_mistake(unfolded=False), "the weights are (6, 5, 7), not (2, 3, 5, 7). They"),
        (weights_mixed, "are not those of head h of example b"),
        (other_weights, "not those that f computed"),
        (context_only, "two arrays, the context and the weights"),
        (by_loop, "f is called 3 times"),
        (not_folded, "and q is (2, 3, 5, 4)"),
        (queries_only, "fold all three alike"),
        (one_size, "another size than its keys"),
        (still_folded, "The heads are still folded"),
        (nothing_back, "is the `return` missing"),
        (no_context, "look at the rows and masks that f gets")],
    "heads_first": [
        (HEADS_FIRST | {"fold": folding(0, 2, 1, 3)}, "fold: Row 1 is head 1 of example 0"),
        (HEADS_FIRST | {"fold": lambda X, num_heads: np.reshape(X, (6, 5, 4))},
         "fold: The transpose is missing"),
        (HEADS_FIRST | {"fold": folding(2, 1, 0, 3)}, "numbers that are their own address"),
        (HEADS_FIRST | {"fold": lambda X, num_heads: np.reshape(X, (2, 5, 4, 3)).transpose(
            3, 0, 1, 2).reshape(6, 5, 4)}, "a head's dimensions are neighbours"),
        (HEADS_FIRST | {"fold": lambda X, num_heads: X}, "It returns (2, 5, 12) for (2, 5, 12)"),
        (HEADS_FIRST | {"unfold": page_unfold}, "It takes row 1 for head 1 of example 0"),
        (HEADS_FIRST | {"unfold": unfolding(1, 0, 2, 3)}, "not next to their dimensions"),
        (HEADS_FIRST | {"unfold": unfolding(0, 1, 2, 3)}, "unfold: The transpose is missing"),
        (HEADS_FIRST | {"copy": "repeat"}, "the length of its example"),
        (HEADS_FIRST | {"wrong rows": [2, 3]}, "both copies give them"),
        (HEADS_FIRST | {"wrong rows": [1, 4, 5]}, "To which example does each"),
        (HEADS_FIRST | {"wrong rows": None}, "Still open: wrong rows"),
        (HEADS_FIRST | {"fold": lambda X: X}, "fold: It raises TypeError")]}
