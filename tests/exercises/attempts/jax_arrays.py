"""Attempts at the exercises on JAX arrays."""

import math

from utils import frameworks

jax = frameworks.jax()
jnp = jax.numpy

AXIS = {"2 examples raise an error": True, "padding right": False, "causal right": True}


def one_query(q, k, v, keep):
    return jax.nn.softmax(k @ q / math.sqrt(len(q)), where=keep) @ v


def over_all(one, keep_over=(0, None, 0)):
    """Return a function of one query mapped over i, h and b; the mask over these axes."""
    by_query, by_head, by_example = keep_over
    queries = jax.vmap(one, (0, None, None, by_query))
    return jax.vmap(jax.vmap(queries, (0, 0, 0, by_head)), (0, 0, 0, by_example))


def other_order(q, k, v, keep):
    """Map over the examples inside, and over the heads outside."""
    queries = jax.vmap(one_query, (0, None, None, 0))
    return jax.vmap(jax.vmap(queries), (1, 1, 1, None), 1)(q, k, v, keep)


def filled(fill, zeros=False):
    def one(q, k, v, keep):
        weights = jax.nn.softmax(jnp.where(keep, k @ q / math.sqrt(len(q)), fill))
        return (weights * keep.any() if zeros else weights) @ v
    return over_all(one)


def changed(scale=lambda d: d ** -0.5, keep=lambda keep: keep, after=False):
    def one(q, k, v, mask):
        scores = k @ q * scale(len(q))
        if after:
            return (jax.nn.softmax(scores) * mask) @ v
        return jax.nn.softmax(scores, where=keep(mask)) @ v
    return over_all(one)


def other_example(q, k, v, keep):
    return over_all(one_query)(q, k, v, keep[::-1])


def python_if(q, k, v, keep):
    return over_all(one_query)(q, k, v, keep) if keep.any() else jnp.zeros_like(q)


RIGHT = {"axis": [AXIS],
         "one_query": [over_all(one_query), other_order, filled(-1e9, zeros=True),
                       jax.jit(over_all(one_query))]}
WRONG = {
    "axis": [
        (AXIS | {"2 examples raise an error": False}, "How many elements has that"),
        (AXIS | {"padding right": True}, "uses it for every example"),
        (AXIS | {"causal right": False}, "Does it matter which of them"),
        (AXIS | {"causal right": None}, "Still open: causal right"),
        (True, "a dict with the keys")],
    "one_query": [
        (filled(-1e9), "gets the average of all values"),
        (filled(-jnp.inf), "gets NaN"),
        (over_all(lambda q, k, v, keep: jax.nn.softmax(k @ q / math.sqrt(len(q))) @ v),
         "it uses no mask"),
        (changed(keep=lambda keep: ~keep), "the mask is inverted"),
        (changed(scale=lambda d: 1), "not divided by √d"),
        (changed(scale=lambda d: 1 / d), "divided by d, not by √d"),
        (other_example, "the mask of the other one"),
        (changed(after=True), "the mask comes after softmax"),
        (python_if, "Compiled by jax.jit: an `if` asks for values"),
        (over_all(one_query, (0, 0, 0)), "It raises ValueError"),
        (lambda q, k, v, keep: (q, keep), "return the context alone"),
        (lambda q, k, v, keep: q[0], "it must return (b, h, i, d)"),
        (lambda q, k, v, keep: q, "it differs from the reference by"),
        (17, "a function or a class")]}
