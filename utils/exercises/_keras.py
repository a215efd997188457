"""The judges of two exercises on the Keras layer. TensorFlow is imported when they are asked."""

import math

import numpy as np

from utils import frameworks, reference, sizes
from utils.checks import difference
from utils.parity import weights

HEADS, WIDTH = sizes.HEADS, 10
TOKENS = np.array([[1, 2, 3, 4, 5, 1], [6, 7, 8, 0, 0, 0], [4, 4, 2, 7, 0, 0]])
SAME = 1e-10   # float64, through two blocks


def _layer(W, n_heads, x, memory):
    """Return Keras' layer with these weights, in float64."""
    keras = frameworks.tensorflow().keras
    layer = keras.layers.MultiHeadAttention(n_heads, W["W_q"].shape[1] // n_heads,
                                            output_shape=W["W_o"].shape[1], dtype="float64")
    layer.build(x.shape, memory.shape)
    return weights.load(layer, weights.to_keras(W, n_heads))


def encoder(mine):
    """Judge encoder(words, real, blocks, add): two blocks in which no word hears padding."""
    keras, real = frameworks.tensorflow().keras, TOKENS > 0
    embed = keras.layers.Embedding(9, WIDTH, mask_zero=True, dtype="float64")
    embed.build()
    embed.set_weights([np.random.default_rng(0).standard_normal((9, WIDTH))])
    x, add = embed(TOKENS).numpy(), keras.layers.Add(dtype="float64")
    both = [sizes.weights(seed, d_in=WIDTH, d_out=WIDTH) for seed in (1, 2)]
    blocks = [_layer(W, HEADS, x, x) for W in both]
    out = np.asarray(mine(embed(TOKENS), real.copy(), list(blocks), add))
    if out.shape != x.shape:
        return f"encoder: it should return words {x.shape}, not {out.shape}."
    for want, why in _encoders(x, real, both, embed, blocks, add):
        if difference(out[real], want[real]) < SAME:
            return why and f"encoder: {why}"
    return ("encoder: the words are not those of words + attention(words, words), twice, with the "
            "padding left out. Compare after one block.")


def _encoders(x, real, both, embed, blocks, add):
    """Yield the outputs of a right encoder, and of wrong ones, with what is wrong."""
    def attend(x, W, keep=real):
        return reference.multi_head_attention(x, x, W, HEADS, keep[:, None, None])[0]

    first, all_ = x + attend(x, both[0]), np.ones_like(real)
    yield first + attend(first, both[1]), ""
    words = embed(TOKENS)
    for block in blocks:  # as the exercise has it
        words = add([words, block(words, words)])
    yield words.numpy(), ("the first block leaves padding out, the second hears it: no mask is on "
                          "its words. (A query_mask that you pass is ignored.)")
    loud = x + attend(x, both[0], all_)
    yield loud + attend(loud, both[1], all_), "no block leaves the padding out."
    yield loud + attend(loud, both[1]), "the second block leaves padding out, the first hears it."
    yield attend(attend(x, both[0]), both[1]), "`add` is missing: a block adds to its words."
    yield first, "that is one block. There are two."
    yield x + attend(first, both[1]), "the second block adds to what came out of the first."
    yield first + attend(first, both[0]), "the second block is the first one once more."
    for block in blocks:
        x = add([x, block(x, x, value_mask=~real)])
    yield x.numpy(), "True = a word: your mask is upside down."


def rounded(program):
    """Judge like_keras(x, memory, W, n_heads): the reference with one number rounded."""
    for d in (4, 5, 3, 7):
        x, memory = sizes.sides(d)
        W = sizes.weights(d, d_model=HEADS * d)
        got = program(x.copy(), memory.copy(), dict(W), HEADS)
        if isinstance(got, tuple):
            return "It returns two things or more; out alone is asked for."
        got = np.asarray(got)
        exact = reference.multi_head_attention(x, memory, W, HEADS)[0]
        if got.shape != exact.shape:
            return f"It should return out, {exact.shape}, not {got.shape}."
        if d == 4 and not difference(got, exact) < 1e-12:
            return (f"With 4 features a head the layer equals the reference within 1e-12, and "
                    f"yours is off by {difference(got, exact):.0e}. So what is rounded is exact "
                    "there: yours is not.")
        theirs = _layer(W, HEADS, x, memory)(x, memory).numpy()
        if not difference(got, theirs) < 1e-12:
            return f"With {d} features a head: {_guess(got, theirs, exact, x, memory, W, d)}"
    return ""


def _guess(got, theirs, exact, x, memory, W, d):
    """Return what is wrong with an answer that is not the layer's."""
    scale = 1 / math.sqrt(d)
    single = float(np.float32(scale))
    scales = {float(np.float32(1) / np.sqrt(np.float32(d))): "you round twice, √d and then 1 over "
              "it. The layer rounds once.",
              scale: "nothing that matters is rounded: yours is the reference itself, and the "
                     f"layer is off by {difference(theirs, exact):.0e}.",
              1 / float(np.float32(math.sqrt(d))): "you round √d and divide. The layer rounds the "
              "number that it multiplies by.",
              float(np.float32(1 / d)) ** 0.5: "you round 1/d. What is it that scores are "
              "multiplied by?",
              float(np.float16(scale)): "rounded to float16, which keeps 11 binary digits; float32 "
                                        "keeps 24.",
              scale * scale / single: "the factor is upside down: what is rounded up makes scores "
                                      "larger."}
    q, k, v = reference.project(x, memory, W, HEADS)
    for number, why in scales.items():
        context, _ = reference.attention(q, k, v, scale=number)
        if difference(got, reference.merge_heads(context) @ W["W_o"] + W["b_o"]) < 1e-13:
            return why
    alone = W | {"W_q": W["W_q"] * single / scale}
    if difference(got, reference.multi_head_attention(x, memory, alone, HEADS)[0]) < 1e-13:
        return "a query too long by a factor is W_q *and* b_q too long by it."
    return (f"yours is off from the layer by {difference(got, theirs):.0e}, the reference by "
            f"{difference(exact, theirs):.0e}.")
