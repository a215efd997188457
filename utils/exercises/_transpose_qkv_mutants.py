"""Mutants of the TensorFlow layer in chapter `transpose_qkv`, and the six tests for them.

Nothing here imports TensorFlow before it is used.
"""

import inspect
import types
from functools import lru_cache

import numpy as np

from utils import checks, masks, reference, sizes
from utils.frameworks import tensorflow
from utils.parity.weights import load, to_dense

# The same program, written differently: no test should fail it.
EQUIVALENT = {"queries @ tf.transpose(keys, perm=(0, 2, 1))":
            "tf.matmul(queries, keys, transpose_b=True)",
            "dropped @ values": "tf.matmul(dropped, values)"}


def source():
    """Return the text of utils/attention/tensorflow.py."""
    tensorflow()
    from utils.attention import tensorflow as tf_attention
    return inspect.getsource(tf_attention)


def mutant(changes):
    """Return MultiHeadAttention with parts of its source replaced, by {old text: new text}."""
    return _compiled(tuple(changes.items()))


@lru_cache(maxsize=32)
def _compiled(changes):
    text, module = source(), types.ModuleType("mutant")
    for old, new in changes:
        if old not in text:
            raise ValueError(f"{old!r} is not in the source of the program")
        text = text.replace(old, new)
    exec(compile(text, "mutant", "exec"), vars(module))
    return module.MultiHeadAttention


def equals_reference(make_layer, x, memory, W, num_heads, valid_lens):
    """Return whether a layer with these parameters equals the reference."""
    d_in, num_hiddens = W["W_q"].shape
    layer = load(make_layer(d_in, d_in, d_in, num_hiddens, num_heads, 0.5, bias=True,
                            dtype="float64"), to_dense(W))
    keep = None if valid_lens is None else masks.from_valid_lens(valid_lens, memory.shape[1])
    expected, _ = reference.multi_head_attention(x, memory, W, num_heads, keep)
    return checks.difference(layer(x, memory, memory, valid_lens), expected) < 1e-9


def right_shape(make_layer, d_in=100, num_hiddens=100, num_heads=5):
    """Return whether the output for inputs of ones has the right shape."""
    layer = make_layer(d_in, d_in, d_in, num_hiddens, num_heads, 0.5)
    X, Y = np.ones((2, 4, d_in), "float32"), np.ones((2, 6, d_in), "float32")
    return layer(X, Y, Y, np.array([3, 2]), training=False).shape == (2, 4, num_hiddens)


def six_tests():
    """Return {name: test} of the chapter: each takes make_layer and returns True if it passes."""
    ones = np.ones((2, 4, 100)), np.ones((2, 6, 100))
    W_100 = sizes.weights(d_in=100, d_model=100, d_out=100)
    W_12, square = sizes.weights(d_in=12, d_out=12), sizes.sides(d_in=12)
    W, (x, memory) = sizes.weights(d_out=12), sizes.sides()
    return {"shape": right_shape,
            "shape, sizes": lambda make: right_shape(make, 11, 12, 3),
            "ones": lambda make: equals_reference(make, *ones, W_100, 5, np.array([3, 2])),
            "random": lambda make: equals_reference(
                make, *square, W_12, 3, np.array([7, 7])),
            "padded": lambda make: equals_reference(make, x, memory, W, 3, np.array([4, 4])),
            "unequal": lambda make: equals_reference(make, x, memory, W, 3, np.array([7, 3]))}


def catches(test, make_layer):
    """Return whether a test fails, by its result or by an error of the layer."""
    try:
        return not test(make_layer)
    except (ValueError, AssertionError, tensorflow().errors.InvalidArgumentError):
        return True
