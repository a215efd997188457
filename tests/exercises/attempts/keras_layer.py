"""Attempts at the exercises on the Keras layer."""

import numpy as np

from utils import reference

PAPER = {"parameters": 36_002, "weights": 210, "depends": {"num_heads"}}
ATTENDS = {"one": False, "two": True}


def in_all(words, real, blocks, add, **always):
    for block in blocks:
        words = add([words, block(words, words, **always)])
    return words


def value_mask(words, real, blocks, add):
    return in_all(words, real, blocks, add, value_mask=real)


def attention_mask(words, real, blocks, add):
    return in_all(words.numpy(), real, blocks, add, attention_mask=np.tile(
        real[:, None], (1, real.shape[1], 1)))


def put_back(words, real, blocks, add):
    for block in blocks:
        words._keras_mask = real
        words = add([words, block(words, words)])
    return words.numpy()


def query_mask(words, real, blocks, add):
    return in_all(words, real, blocks, add, query_mask=real)


def bare(words, real, blocks, add):
    return in_all(words.numpy(), real, blocks, add)


def inverted(words, real, blocks, add):
    return in_all(words.numpy(), real, blocks, add, value_mask=~real)


def without_add(words, real, blocks, add):
    for block in blocks:
        words = block(words, words, value_mask=real)
    return words


def one_block(words, real, blocks, add):
    return value_mask(words, real, blocks[:1], add)


def first_words(words, real, blocks, add):
    start = words.numpy()
    return start + blocks[1](one_block(words, real, blocks, add), one_block(
        start, real, blocks, add), value_mask=real)


def scaled(scale):
    """Return the program whose scores are multiplied by scale(d)."""
    def like_keras(x, memory, W, n_heads):
        q, k, v = reference.project(x, memory, W, n_heads)
        context, _ = reference.attention(q, k, v, scale=float(scale(q.shape[-1])))
        return reference.merge_heads(context) @ W["W_o"] + W["b_o"]
    return like_keras


def longer(*names):
    """Return the program whose weights with these names are too long by the same factor."""
    def like_keras(x, memory, W, n_heads):
        exact = 1 / np.sqrt(W["W_q"].shape[1] // n_heads)
        factor = float(np.float32(exact)) / exact
        return reference.multi_head_attention(
            x, memory, W | {name: W[name] * factor for name in names}, n_heads)[0]
    return like_keras


def all_single(x, memory, W, n_heads):
    W = {name: w.astype("float32").astype("float64") for name, w in W.items()}
    return reference.multi_head_attention(x, memory, W, n_heads)[0]


RIGHT = {
    "paper": [PAPER, PAPER | {"depends": "num_heads"}, PAPER | {"depends": ["num_heads"]}],
    "two_blocks": [ATTENDS | {"encoder": value_mask}, ATTENDS | {"encoder": attention_mask},
                   {"one": np.False_, "two": np.True_, "encoder": put_back}],
    "rounded": [scaled(lambda d: np.float32(1 / np.sqrt(d))), longer("W_q", "b_q"),
                longer("W_k", "b_k")]}

WRONG = {
    "paper": [
        (PAPER | {"parameters": 35_616}, "Those are the matrices"),
        (PAPER | {"parameters": 6_042}, "those of one head"),
        (PAPER | {"parameters": 29_714}, "values have 24 dimensions"),
        (PAPER | {"parameters": 39_842}, "the input with 80 dimensions"),
        (PAPER | {"parameters": 42_672}, "output_shape=50"),
        (PAPER | {"weights": [6, 5, 7]}, "Write one number"),
        (PAPER | {"weights": 35}, "Each head has weights of its own"),
        (PAPER | {"weights": 36_002}, "Count the attention weights"),
        (PAPER | {"depends": {"num_heads", "key_dim"}}, "appear in the count of weights"),
        (PAPER | {"depends": None}, "Still open: depends"),
        (36_002, "a dict with the keys")],
    "two_blocks": [
        ({"one": True, "two": False, "encoder": bare}, "first block finds the mask on `words`"),
        ({"one": True, "two": True, "encoder": value_mask}, "finds the mask on `words`"),
        ({"one": False, "two": False, "encoder": value_mask}, "Add passes on a mask only if both"),
        (ATTENDS | {"encoder": None}, "Still open: encoder"),
        (ATTENDS | {"encoder": lambda words, real, blocks, add: in_all(words, real, blocks, add)},
         "the first block masks the padding, but the second attends to it"),
        (ATTENDS | {"encoder": query_mask}, "A query_mask that you pass is ignored"),
        (ATTENDS | {"encoder": bare}, "neither block masks the padding"),
        (ATTENDS | {"encoder": inverted}, "your mask is inverted"),
        (ATTENDS | {"encoder": without_add}, "`add` is missing"),
        (ATTENDS | {"encoder": one_block}, "but there are two"),
        (ATTENDS | {"encoder": first_words}, "must add to the output of the first"),
        (ATTENDS | {"encoder": lambda words, real, blocks, add: print(end="")}, "it must return"),
        (ATTENDS | {"encoder": lambda words, real, blocks, add: in_all(
            words, real, blocks, add, mask=real)}, "raises"),
        (ATTENDS, "with the keys")],
    "rounded": [
        (scaled(lambda d: 1 / np.sqrt(d)), "you rounded nothing that matters"),
        (scaled(lambda d: 1 / float(np.float32(np.sqrt(d)))), "you round √d and divide"),
        (scaled(lambda d: float(np.float16(1 / np.sqrt(d)))), "you round to float16"),
        (scaled(lambda d: np.sqrt(float(np.float32(1 / d)))), "you round 1/d"),
        (scaled(lambda d: 1 / d / float(np.float32(1 / np.sqrt(d)))), "the factor is inverted"),
        (longer("W_q"), "W_q *and* b_q"),
        (all_single, "a number that is not exact there"),
        (scaled(lambda d: float(np.float32(1) / np.sqrt(np.float32(d)))), "twice"),
        (lambda *given: reference.multi_head_attention(*given), "must return out alone"),
        (lambda x, memory, W, n_heads: x, "It must return out"),
        (lambda x, memory, W, n_heads: reference.attention(x, memory), "raises TypeError")]}
