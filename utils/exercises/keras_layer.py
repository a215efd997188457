"""The exercises of the chapter on the Keras layer. TensorFlow is imported when they are judged."""

import math

import numpy as np

from .. import frameworks, reference, sizes
from ..checks import difference
from ..parity import weights
from ._check import Check, Exercise
from ._judges import parts, prediction, recognise

PAIRS = "A weight belongs to a pair of tokens, not to a dimension."
PAPER = {
    "parameters": prediction(36_002, {
        35_616: "Those are the matrices. All four products have a bias, too.",
        35_722: "A bias has a number for every dimension of *every* head.",
        6_042: "key_dim and value_dim are those of one head. There are six heads.",
        29_714: "A head's values have 24 dimensions, not 16, so W_v and W_o are larger.",
        39_842: "Keys and values are made from the input with 80 dimensions.",
        42_672: "output_shape=50: the output has 50 dimensions, not as many as the query.",
        28_752: "You left out the matrix and the bias of the output.",
        28_416: "A fourth product follows: W_o.",
        None: "Count four matrices with a bias each: inputs times outputs, plus outputs."}),
    "weights": prediction(210, {
        35: "Each head has weights of its own.",
        36_002: "Count the attention weights, not the parameters: one for each query and key.",
        3_360: PAIRS, 5_040: PAIRS,
        150: "Five queries attend to seven keys, not to each other.",
        294: "There are seven keys, but five queries.",
        None: "There is one number for each head, each query and each key."}),
    "depends": lambda given: prediction({"num_heads"}, (
        "Which of the four numbers appear in the count of weights? Answer with a set of names: "
        "{\"…\"}."))({given} if isinstance(given, str) else given)}

HEADS, WIDTH = sizes.HEADS, 10
TOKENS = np.array([[1, 2, 3, 4, 5, 1], [6, 7, 8, 0, 0, 0], [4, 4, 2, 7, 0, 0]])


def _keras_layer(W, n_heads, x, memory):
    """Return Keras' layer with these parameters, in float64."""
    keras = frameworks.tensorflow().keras
    layer = keras.layers.MultiHeadAttention(n_heads, W["W_q"].shape[1] // n_heads,
                                            output_shape=W["W_o"].shape[1], dtype="float64")
    layer.build(x.shape, memory.shape)
    return weights.load(layer, weights.to_keras(W, n_heads))


def _encoder(encoder):
    """Judge encoder(words, real, blocks, add): two blocks in which no token attends to padding."""
    keras, real = frameworks.tensorflow().keras, TOKENS > 0
    embed = keras.layers.Embedding(9, WIDTH, mask_zero=True, dtype="float64")
    embed.build()
    embed.set_weights([np.random.default_rng(0).standard_normal((9, WIDTH))])
    x, add = embed(TOKENS).numpy(), keras.layers.Add(dtype="float64")
    both = [sizes.weights(seed, d_in=WIDTH, d_out=WIDTH) for seed in (1, 2)]
    blocks = [_keras_layer(W, HEADS, x, x) for W in both]
    out = np.asarray(encoder(embed(TOKENS), real.copy(), list(blocks), add))
    if out.shape != x.shape:
        return f"it must return words of shape {x.shape}, not {out.shape}."
    known = ((want[real], message)
             for want, message in _known_encoders(x, real, both, embed, blocks, add))
    message = recognise(out[real], known, 1e-10)  # float64, through two blocks
    if message is None:
        message = ("the result is not that of words + attention(words, words), twice, with the "
                   "padding masked. Compare after one block.")
    return message


def _known_encoders(x, real, both, embed, blocks, add):
    """Yield (outputs, message) of encoders, the right one first."""
    def attend(x, W, keep=real):
        return reference.multi_head_attention(x, x, W, HEADS, keep[:, None, None])[0]

    first, all_tokens = x + attend(x, both[0]), np.ones_like(real)
    yield first + attend(first, both[1]), ""
    words = embed(TOKENS)
    for block in blocks:  # as in the exercise
        words = add([words, block(words, words)])
    yield words.numpy(), ("the first block masks the padding, but the second attends to it: its "
                          "words carry no mask. (A query_mask that you pass is ignored.)")
    unmasked = x + attend(x, both[0], all_tokens)
    yield unmasked + attend(unmasked, both[1], all_tokens), "neither block masks the padding."
    yield (unmasked + attend(unmasked, both[1]),
           "the second block masks the padding, but the first attends to it.")
    yield attend(attend(x, both[0]), both[1]), "`add` is missing: a block adds to its input."
    yield first, "that is one block, but there are two."
    yield x + attend(first, both[1]), "the second block must add to the output of the first."
    yield first + attend(first, both[0]), "you used the first block twice."
    for block in blocks:
        x = add([x, block(x, x, value_mask=~real)])
    yield x.numpy(), "True must mean a real token: your mask is inverted."


def _rounded(program):
    """Judge like_keras(x, memory, W, n_heads): the reference with one number rounded."""
    for d in (4, 5, 3, 7):
        x, memory = sizes.sides(d)
        W = sizes.weights(d, d_model=HEADS * d)
        got = program(x.copy(), memory.copy(), dict(W), HEADS)
        if isinstance(got, tuple):
            return "It returns several things, but it must return out alone."
        got = np.asarray(got)
        exact = reference.multi_head_attention(x, memory, W, HEADS)[0]
        if got.shape != exact.shape:
            return f"It must return out, {exact.shape}, not {got.shape}."
        if d == 4 and not difference(got, exact) < 1e-12:
            return ("With 4 dimensions per head the layer equals the reference within 1e-12, but "
                    f"yours differs by {difference(got, exact):.0e}. So you rounded a number that "
                    "is not exact there.")
        theirs = _keras_layer(W, HEADS, x, memory)(x, memory).numpy()
        if not difference(got, theirs) < 1e-12:
            message = recognise(got, _known_roundings(x, memory, W, d), 1e-13)
            if message is None:
                message = (f"yours differs from the layer by {difference(got, theirs):.0e}, the "
                           f"reference by {difference(exact, theirs):.0e}.")
            return f"With {d} dimensions per head: {message}"
    return ""


def _known_roundings(x, memory, W, d):
    """Yield (output, message) of programs that round something else."""
    scale, single = 1 / math.sqrt(d), float(np.float32(1 / math.sqrt(d)))
    q, k, v = reference.project(x, memory, W, HEADS)
    for number, message in (
            (float(np.float32(1) / np.sqrt(np.float32(d))),
             "you round twice, √d and then 1 over it. The layer rounds once."),
            (scale, "yours equals the reference, so you rounded nothing that matters."),
            (1 / float(np.float32(math.sqrt(d))),
             "you round √d and divide. The layer rounds the number by which it multiplies."),
            (float(np.float32(1 / d)) ** 0.5, "you round 1/d. By which number are scores "
                                              "multiplied?"),
            (float(np.float16(scale)), "you round to float16, which has 11 binary digits; float32 "
                                       "has 24."),
            (scale * scale / single,
             "the factor is inverted: if it is rounded up, the scores must be larger.")):
        context, _ = reference.attention(q, k, v, scale=number)
        yield reference.merge_heads(context) @ W["W_o"] + W["b_o"], message
    longer = W | {"W_q": W["W_q"] * single / scale}
    yield (reference.multi_head_attention(x, memory, longer, HEADS)[0],
           "to multiply the queries by a factor, multiply W_q *and* b_q by it.")


check = Check({
    "paper": Exercise(parts(PAPER), (
        "q is made from 96 numbers and k from 80; each has 6 · 16 dimensions, and as many biases.",
        "v is made from 80 numbers and has 6 · 24 dimensions, which are the input of the output "
        "projection.",
        "Softmax returns one number for each pair of a query and a key, in each head."),
        "The number of parameters does not depend on the number of tokens. The number of attention "
        "weights depends only on the number of tokens and of heads."),
    "two_blocks": Exercise(parts({
        "one": prediction(False, "The first block finds the mask on `words`, and uses it."),
        "two": prediction(True, "What has the first block removed from `words`? And Add passes on "
                                "a mask only if both of its inputs have one."),
        "encoder": _encoder}), (
        "The second block expects a mask on `words`: where would it come from?",
        "Row 0 of the embedding is the vector of padding: if you change it, the output of a real "
        "token must not change.",
        "If you pass a mask to each call by name, it does not matter whether a tensor carries one. "
        "Which argument masks keys?"),
        "A mask in a variable of your own cannot get lost on the way."),
    "rounded": Exercise(_rounded, (
        "With 1, 4, 16 and 64 dimensions there is no difference: which number in the equation is a "
        "power of two in these cases?",
        "reference.project gives q, k and v, and reference.attention has an argument for that "
        "number.",
        "np.float32 rounds a number to float32; float turns the result into a Python number again, "
        "without another rounding."),
        "One rounded number explains the whole difference: what remains is below 1e-12."),
})
