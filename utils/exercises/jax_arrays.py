"""The exercises of the chapter on JAX arrays. JAX is imported when they are judged."""

import numpy as np

from .. import frameworks, reference, sizes
from ..checks import difference
from ._check import Check, Exercise
from ._judges import parts, prediction, recognise

AXIS = {
    "2 examples raise an error": prediction(
        True, "vmap runs over axis 1 of W_q, which has 3 elements, and over axis 0 of the mask. "
              "How many elements has that with 2 examples?"),
    "padding right": prediction(
        False, "Head 1 gets mask[1], the mask of example 1, and uses it for every example."),
    "causal right": prediction(
        True, "All examples and all heads have the same causal mask. Does it matter which of them "
              "the mask was made for?")}


def _one_query(program):
    """Judge mapped(q, k, v, keep): the context, also compiled, with zeros in fully masked rows."""
    jax = frameworks.jax()
    q, k, v = sizes.qkv(5, d_v=sizes.D_HEAD)
    keep = np.random.default_rng(5).random((sizes.BATCH, sizes.N_Q, sizes.N_K)) < 0.6
    keep[..., 2], keep[1, 3] = True, False
    want, _ = reference.attention(q, k, v, keep[:, None])
    for way, make in (("", lambda: program), ("Compiled by jax.jit: ", lambda: jax.jit(program))):
        try:
            got = make()(*map(jax.numpy.asarray, (q, k, v, keep)))
        except jax.errors.TracerBoolConversionError:
            return f"{way}an `if` asks for values, which a compiled function does not know."
        if isinstance(got, tuple):
            return f"{way}it returns several things, but it must return the context alone."
        if np.shape(got) != want.shape:
            return f"{way}it must return (b, h, i, d) = {want.shape}, not {np.shape(got)}."
        message = recognise(got, _known(q, k, v, keep, want), 1e-5)
        if message is None:
            message = (f"it differs from the reference by {difference(got, want):.1g}. Compare one "
                       "query of one head with your function for one query.")
        if message:
            return way + message
    return ""


def _known(q, k, v, keep, want):
    """Yield (context, message) of programs, the right one first."""
    everything, where = np.ones_like(keep), keep[:, None]
    yield want, ""
    empty = ~keep.any(axis=-1)[:, None, :, None]
    average = reference.attention(q, k, v, everything[:, None])[0]
    mean = np.broadcast_to(v.mean(axis=-2, keepdims=True), want.shape)
    yield np.where(empty, mean, want), ("the query that may attend to nothing gets the average of "
                                        "all values, but it must get zeros.")
    yield np.where(empty, np.nan, want), ("the query that may attend to nothing gets NaN, but it "
                                          "must get zeros. Look at the argument `where`.")
    yield average, "it uses no mask."
    yield reference.attention(q, k, v, ~where)[0], "the mask is inverted: True = may attend."
    for scale, message in ((1.0, "the scores are not divided by √d."),
                           (1 / q.shape[-1], "the scores are divided by d, not by √d.")):
        yield reference.attention(q, k, v, where, scale=scale)[0], message
    yield (reference.attention(q, k, v, where[::-1])[0],
           "each example uses the mask of the other one.")
    weights = reference.attention(q, k, v)[1] * where
    yield weights @ v, "the mask comes after softmax, so the weights of a row do not sum to 1."


check = Check({
    "axis": Exercise(parts(AXIS), (
        "vmap needs as many elements on each axis that it runs over.",
        "Inside `one_head`, q is (b, i, d). Head h gets mask[h], (h, i, j), and its first axis is "
        "taken for the examples.",
        "With 3 examples and 3 heads, the mask of example b and head h is used where that of "
        "example h and head b belongs."),
        "The mask was transposed: its examples and its heads changed places. Sizes that differ "
        "turn this into an error."),
    "one_query": Exercise(_one_query, (
        "For one query: k @ q has one score for each key, (j,).",
        "jax.nn.softmax has an argument `where`, which gives zeros if nothing is True.",
        "Begin with the innermost axis. Over i, q and keep have that axis, 0, and k and v have "
        "none: None. Over h, keep has none.",),
        "Each vmap adds one axis, and None says which array does not have it."),
})
