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


HEADS_FIRST = {"fold": fold, "unfold": unfold, "copy": "tile", "wrong rows": [1, 4]}
EIGHT = {"x": [[[1.0], [2.0]], [[-1.0], [0.5]]], "memory": [[[3.0], [1.0]], [[0.5], [-2.0]]],
         "valid_lens": [1, 2], "num_hiddens": 4, "num_heads": 2}
PAGE = {"x": x, "memory": memory, "valid_lens": [7, 3], "num_hiddens": 12, "num_heads": 3}

RIGHT = {
    "eleventh": [{"changes": MASKED_ROWS, "test": right_on_masked_rows},
                 {"changes": DROPOUT, "test": drops_in_training},
                 {"changes": KEYS, "test": other_values}],
    "heads_first": [HEADS_FIRST,
                    HEADS_FIRST | {"fold": folding(2, 0, 1, 3), "unfold": unfolding(1, 2, 0, 3),
                                   "copy": "tf.tile", "wrong rows": np.array([4, 1])}],
    "smallest_input": [EIGHT, EIGHT | {"x": rng.standard_normal((2, 2, 1)),
                                       "valid_lens": np.array([2, 1]), "num_hiddens": 12,
                                       "num_heads": 3}]}

WRONG = {
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
        (HEADS_FIRST | {"fold": lambda X: X}, "fold: It raises TypeError")],
    "smallest_input": [
        (PAGE, "2 · 5 · 11 + 2 · 7 · 11 = 264 numbers. The best is 8"),
        (EIGHT | {"num_hiddens": 2}, "How many dimensions has a head"),
        (EIGHT | {"valid_lens": [2, 2]}, "Is any key masked"),
        (EIGHT | {"valid_lens": [1, 1]}, "when are two such lists equal"),
        (EIGHT | {"x": [[[1.0]], [[2.0]]]}, "in memory in the same order"),
        (PAGE | {"x": 0 * x + 1, "memory": 0 * memory + 1}, "Random numbers of these sizes"),
        (EIGHT | {"valid_lens": [0, 0]}, "All rows are fully masked"),
        (EIGHT | {"valid_lens": [[1, 2], [2, 2]]}, "one length for each example"),
        (EIGHT | {"x": [[1.0, 2.0], [3.0, 4.0]]}, "three axes"),
        (EIGHT | {"num_heads": 3}, "raises ValueError: d_model=4 is not divisible by n_heads=3"),
        (EIGHT | {"x": [[[np.nan], [2.0]], [[-1.0], [0.5]]]}, "NaN and infinity"),
        (EIGHT | {"x": None}, "Still open: x")]}
