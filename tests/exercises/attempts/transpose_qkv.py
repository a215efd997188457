"""Attempts at the exercises on transpose_qkv."""

import numpy as np

from utils import masks, reference, sizes
from utils.checks import difference
from utils.exercises._transpose_qkv_mutants import equals_reference
from utils.frameworks import tensorflow
from utils.parity.weights import load, to_dense

tf = tensorflow()
W, (x, memory) = sizes.weights(d_out=12), sizes.sides()
rng = np.random.default_rng(0)


def right_on_masked_rows(make_layer):
    return equals_reference(make_layer, x, memory, W, 3, np.array([7, 0]))


def drops_in_training(make_layer):
    layer = load(make_layer(11, 11, 11, 12, 3, 0.5, bias=True, dtype="float64"), to_dense(W))
    one, two = (layer(x, memory, memory, None, training=True) for _ in range(2))
    return (one != two).numpy().any()


def other_values(make_layer):
    layer = load(make_layer(11, 11, 11, 12, 3, 0.5, bias=True, dtype="float64"), to_dense(W))
    out = layer(x, np.ones_like(memory), memory, None)
    assert np.ptp(out, axis=1).max() < 1e-12
    return True


def never_right(make_layer):
    return False


def one_head(make_layer):
    expected, _ = reference.multi_head_attention(x, memory, W, 3, masks.padding([7, 2], 7))
    layer = load(make_layer(11, 11, 11, 12, 3, 0.5, bias=True, dtype="float64"), to_dense(W))
    return difference(layer(x, memory, memory, np.array([7, 2])), expected) < 1e-9


def silent(make_layer):
    make_layer(11, 11, 11, 12, 3, 0.5)


MASKED_ROWS = {"tf.nn.softmax(X, axis=-1), 0.0)": "tf.nn.softmax(X, axis=-1), 1.0)"}
DROPOUT = {"dropped @ values": "self.attention_weights @ values"}
KEYS = {"self.W_k(keys), self": "self.W_k(values), self"}


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


def any_attention(f, q, k, v, num_heads, lengths, copy=np.repeat, split=(0, 2, 1, 3), merge=True,
                  interleaved=False):
    """Return multi-head context by one call of f; the options are mistakes."""
    def fold(side):
        b, n, e = side.shape
        if interleaved:
            return side.reshape(b, n, -1, num_heads).transpose(0, 3, 1, 2).reshape(
                b * num_heads, n, -1)
        return side.reshape(b, n, num_heads, -1).transpose(split).reshape(b * num_heads, n, -1)

    context = f(fold(q), fold(k), fold(v), copy(lengths, num_heads))
    if split[0] == 2:
        context = context.reshape(num_heads, *q.shape[:2], -1).transpose(1, 0, 2, 3)
    context = context.reshape(len(q), num_heads, q.shape[1], -1)
    return (context.transpose(0, 2, 1, 3) if merge else context).reshape(q.shape)


def any_mistake(**options):
    def multi_head(f, q, k, v, num_heads, lengths):
        return any_attention(f, q, k, v, num_heads, lengths, **options)
    return multi_head


def by_loop(f, q, k, v, num_heads, lengths):
    sides = [np.split(side, num_heads, axis=-1) for side in (q, k, v)]
    return np.concatenate([f(*head, lengths) for head in zip(*sides, strict=True)], axis=-1)


def not_folded(f, q, k, v, num_heads, lengths):
    return f(q.reshape(2, 5, num_heads, -1).swapaxes(1, 2), k, v, lengths)


def queries_only(f, q, k, v, num_heads, lengths):
    q = q.reshape(2, 5, num_heads, -1).swapaxes(1, 2).reshape(6, 5, 4)
    return f(q, k, v, np.repeat(lengths, num_heads))


def still_folded(f, q, k, v, num_heads, lengths):
    rows = [side.reshape(2, -1, num_heads, 4).swapaxes(1, 2).reshape(6, -1, 4)
            for side in (q, k, v)]
    return f(*rows, np.repeat(lengths, num_heads))


def nothing_back(*given):
    any_attention(*given)


def in_tensorflow(f, q, k, v, num_heads, lengths):
    folded = [tf.reshape(tf.transpose(tf.reshape(side, (2, -1, num_heads, 4)), (0, 2, 1, 3)),
                         (6, -1, 4)) for side in (q, k, v)]
    context = tf.reshape(f(*folded, tf.repeat(lengths, num_heads)), (2, num_heads, -1, 4))
    return tf.reshape(tf.transpose(context, (0, 2, 1, 3)), (2, -1, 12))


def heads_first(copy):
    return any_mistake(copy=copy, split=(2, 0, 1, 3))


HEADS_FIRST = {"fold": fold, "unfold": unfold, "copy": "tile", "wrong rows": [1, 4]}

RIGHT = {
    "any_attention": [any_attention, in_tensorflow, heads_first(np.tile)],
    "eleventh": [{"changes": MASKED_ROWS, "test": right_on_masked_rows},
                 {"changes": DROPOUT, "test": drops_in_training},
                 {"changes": KEYS, "test": other_values}],
    "heads_first": [HEADS_FIRST,
                    HEADS_FIRST | {"fold": folding(2, 0, 1, 3), "unfold": unfolding(1, 2, 0, 3),
                                   "copy": "tf.tile", "wrong rows": np.array([4, 1])}]}

WRONG = {
    "any_attention": [
        (any_mistake(copy=np.tile), "the length of the other example"),
        (heads_first(np.repeat), "Fold and copy must agree"),
        (any_mistake(copy=lambda lengths, n: lengths), "lengths of shape (2,) for 6 rows"),
        (any_mistake(copy=lambda lengths, n: None), "f needs the lengths, too"),
        (any_mistake(copy=lambda lengths, n: np.full(6, 7)), "mask no key"),
        (any_mistake(split=(0, 1, 2, 3)), "torn on the way in"),
        (any_mistake(merge=False), "torn on the way out"),
        (any_mistake(split=(0, 1, 2, 3), merge=False), "both transposes are missing"),
        (any_mistake(interleaved=True), "a head's dimensions are neighbours"),
        (by_loop, "f is called 3 times"),
        (not_folded, "and q is (2, 3, 5, 4)"),
        (queries_only, "fold all three alike"),
        (still_folded, "The heads are still folded"),
        (nothing_back, "is the `return` missing"),
        (lambda f, q, k, v, num_heads, lengths: q, "look at the rows that f gets")],
    "eleventh": [
        ({"changes": {"(scores, valid_lens)": "(scores, None)"}, "test": one_head},
         "These of the six tests catch it: padded; unequal"),
        ({"changes": DROPOUT, "test": None}, "Still open: the test that catches it"),
        ({"changes": DROPOUT, "test": right_on_masked_rows}, "Your test misses it, too"),
        ({"changes": {"dropped @ values": "dropped  @ values"}, "test": drops_in_training},
         "does it never matter"),
        ({"changes": MASKED_ROWS, "test": never_right}, "false alarm: the right program fails it"),
        ({"changes": MASKED_ROWS, "test": silent}, "your test returns None"),
        ({"changes": {"weights @ value": "x"}, "test": one_head}, "is not in inspect.getsource"),
        ({"changes": {"dropped @ values": "dropped @ ("}, "test": one_head}, "SyntaxError"),
        ({"changes": {}, "test": one_head}, "Still open: changes"),
        ({"changes": "no dropout", "test": one_head}, "changes must be a dict"),
        (MASKED_ROWS, "keys 'changes', 'test'")],
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
