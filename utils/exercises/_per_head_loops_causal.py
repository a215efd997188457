"""Judge of `causal_heads` in the chapter on loops over heads: the layer in NumPy, causal."""

import numpy as np

from .. import masks, reference
from ..checks import to_numpy
from ._judges import recognise

NAN = ("It returns NaN. Softmax of a row in which all scores are -inf is NaN: may position 0 "
       "attend to itself?")


def judge(causal_heads):
    """Return what is wrong with a reader's causal_heads(x, w, n_heads), "" if nothing is."""
    for seed, (n, d_in, d_model, d_out, n_heads) in enumerate(((5, 9, 12, 13, 3),
                                                               (7, 8, 10, 3, 2))):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, d_in))
        w = {name: rng.standard_normal((d_in, d_model)) for name in ("W_q", "W_k", "W_v")}
        w["W_o"] = rng.standard_normal((d_model, d_out))
        got = causal_heads(x.copy(), {name: W.copy() for name, W in w.items()}, n_heads)
        if got is None:
            return "Your function returns None: is a return missing?"
        got = to_numpy(got)
        problem = recognise(got, _candidates(x, w, n_heads))
        if problem is None:
            problem = _unknown(got, (n, d_out), x, w, n_heads, causal_heads)
        if problem:
            return problem
    return ""


def _program(x, w, n_heads, keep, scale=None, axis=-1, split_first=False, late=False, same=False):
    """Return the heads' contexts (h, i, d), with one thing done otherwise."""
    q, k, v = (x @ w[name] for name in ("W_q", "W_k", "W_v"))
    if split_first:
        blocks = np.kron(np.eye(n_heads), np.ones((x.shape[1] // n_heads,
                                                   q.shape[1] // n_heads)))
        q, k, v = (x @ (w[name] * blocks) for name in ("W_q", "W_k", "W_v"))
    q, k, v = (reference.split_heads(side[None], n_heads)[0] for side in (q, k, v))
    if same:
        q, k, v = (np.broadcast_to(side[:1], side.shape) for side in (q, k, v))
    shown = np.True_ if late else keep
    scores = reference.attention_scores(q, k, np.broadcast_to(shown, keep.shape), scale=scale)
    weights = reference.softmax(scores, axis=axis)
    return np.where(keep, weights, 0) @ v if late else weights @ v


def _candidates(x, w, n_heads):
    """Yield (output, what is said of it), the right one first."""
    n, d_model = len(x), w["W_q"].shape[1]
    past = masks.causal(n)

    def merged(keep=past, **otherwise):
        return np.concatenate([*_program(x, w, n_heads, keep, **otherwise)], axis=-1)

    yield merged() @ w["W_o"], ""
    yield merged(), "The last step is missing: the contexts side by side times W_o."
    everything = np.ones_like(past)
    yield merged(everything) @ w["W_o"], (
        "It is right without a mask: every position attends to later ones, too.")
    yield merged(past.T) @ w["W_o"], (
        "The mask is inverted: position i attends to positions from i on, and not to earlier ones.")
    yield merged(scale=1) @ w["W_o"], "The scores are not divided by √d_head."
    yield merged(scale=d_model ** -0.5) @ w["W_o"], (
        "The scores are divided by √d_model. How many dimensions does one head compare?")
    yield merged(axis=-2) @ w["W_o"], (
        "Your softmax divides by sums over the queries. Each *query's* weights must sum to 1.")
    yield merged(late=True) @ w["W_o"], (
        "You mask after softmax, so the weights that are left no longer sum to 1. Mask the scores.")
    yield merged(same=True) @ w["W_o"], "All heads use the columns of head 0."
    if x.shape[1] % n_heads == 0:
        yield merged(split_first=True) @ w["W_o"], (
            "You split x before the projection. Each head needs all of x: project first.")
    torn = _program(x, w, n_heads, past).reshape(n, d_model)
    yield torn @ w["W_o"], (
        "The heads are merged by a reshape. It cuts (heads, n, d) in the order of the numbers, and "
        "does not put the heads side by side: np.hstack does.")
    one = {name: w[name] for name in w}
    yield np.concatenate([*_program(x, one, 1, past)], axis=-1) @ w["W_o"], (
        "That is a single head with all d_model dimensions.")


def _unknown(got, shape, x, w, n_heads, program):
    """Return what to say of an output that no known mistake gives."""
    if got.shape != shape:
        return (f"For x {x.shape} and W_o {w['W_o'].shape} the output should be {shape}; yours is "
                f"{got.shape}.")
    if np.isnan(got).any():
        return NAN
    later = x.copy()
    later[-1] += 1
    moved = np.abs(to_numpy(program(later, w, n_heads)) - got)[:-1].max(axis=1) > 1e-9
    if moved.any():
        return (f"Output {int(moved.argmax())} changes when only the last token changes. Which "
                "positions may it attend to?")
    return ("The output has the right shape and is causal, and its numbers are wrong. Print the "
            "weights of one head: do its rows sum to 1, and is the upper triangle 0?")
