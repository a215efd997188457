"""Attempts at the exercises on loops over heads."""

import numpy as np
import torch

W_Q, W_K, W_V = np.zeros((3, 6, 6))
W_Q[3:, 0] = W_Q[3:, 3] = 100          # the query of any position, in both heads
W_K[3, 0] = W_K[5, 3] = 1              # the first position's key in head 0, the last's in head 1
W_V[:3, :3] = W_V[:3, 3:] = np.eye(3)  # the values are the words
HAND = {"W_q": W_Q, "W_k": W_K, "W_v": W_V, "as one head": [0.5, 0, 0.5, 0.5, 0, 0.5]}
WORDS_K = np.zeros((6, 6))
WORDS_K[0, 0] = WORDS_K[2, 3] = 1      # the key of dog in head 0, of man in head 1
PLACES_V = np.roll(W_V, 3, axis=0)     # the values are the positions
SLICE = np.kron(np.eye(2), np.ones((3, 3)))
LOUDER = W_Q.copy()
LOUDER[:, 3] *= 2                      # as one head, only the last position gets weight

rng = np.random.default_rng(0)
x = torch.as_tensor(rng.standard_normal((2, 5, 12)))
other = x + (torch.arange(12) >= 8)
equal_slices = torch.as_tensor(rng.standard_normal((2, 5, 4))).repeat(1, 1, 3)


def uses_all(program):
    return not torch.equal(program(x)[..., :4], program(other)[..., :4])


def own_matrices(program):
    one, two, _ = program(equal_slices).chunk(3, dim=-1)
    return not torch.allclose(one, two)


def uses_all_or_raises(program):
    assert (program(x) != program(other))[..., :4].any()


def counts_the_dimensions(program):
    derivatives = torch.autograd.functional.jacobian(lambda x: program(x)[0, 0, 0], x[:1])
    return np.bool_((derivatives.abs().sum(dim=(0, 1)) > 0).all())


def heads_differ(program):
    one, two, _ = program(x).chunk(3, dim=-1)
    return not torch.allclose(one, two)


def shape(program):
    return program(x).shape == x.shape


def causal(program):
    return torch.equal(program(x)[:, :3], program(torch.cat([x[:, :3], 2 * x[:, 3:]], 1))[:, :3])


def both_at_once(program):
    return uses_all(program) or own_matrices(program)


def inverted(program):
    return not uses_all(program)


def open_still(program):
    """Return nothing so far."""
    ...  # noqa: PIE790


def raises(program):
    return program(x)[3]


def layer(keep=lambda n: np.tri(n, dtype=bool), axis=-1, late=False, project=True,
          divisor=lambda d_head, n_heads: d_head ** 0.5, columns=lambda h: h, merge=np.hstack):
    """Return causal heads in NumPy, or with a mistake."""
    def causal_heads(x, w, n_heads):
        sides = [np.split(x @ w[name], n_heads, axis=-1) for name in ("W_q", "W_k", "W_v")]
        contexts = []
        for h in range(n_heads):
            q, k, v = (side[columns(h)] for side in sides)
            scores = q @ k.T / divisor(q.shape[-1], n_heads)
            if not late:
                scores = np.where(keep(len(x)), scores, -np.inf)
            exps = np.exp(scores - scores.max(axis=axis, keepdims=True))
            weights = exps / exps.sum(axis=axis, keepdims=True)
            contexts.append((np.where(keep(len(x)), weights, 0) if late else weights) @ v)
        context = merge(contexts)
        return context @ w["W_o"] if project else context
    return causal_heads


def torn(contexts):
    return np.stack(contexts).reshape(len(contexts[0]), -1)


def split_first(x, w, n_heads):
    blocks = np.kron(np.eye(n_heads), np.ones((x.shape[1] // n_heads,
                                               w["W_q"].shape[1] // n_heads)))
    return layer()(x, {name: W if name == "W_o" else W * blocks for name, W in w.items()}, n_heads)


def with_torch(x, w, n_heads):
    x = torch.as_tensor(x)
    q, k, v = ((x @ torch.as_tensor(w[name])).unflatten(-1, (n_heads, -1)).transpose(0, 1)
               for name in ("W_q", "W_k", "W_v"))
    context = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return context.transpose(0, 1).flatten(1) @ torch.as_tensor(w["W_o"])


RIGHT = {
    "who_bites": [HAND, {name: np.asarray(part).tolist() for name, part in HAND.items()},
                  HAND | {name: torch.tensor(HAND[name]) for name in ("W_q", "W_k", "W_v")},
                  HAND | {"W_q": LOUDER, "as one head": np.array([0, 0, 1, 0, 0, 1])}],
    "causal_heads": [layer(), with_torch],
    "thrifty": [[uses_all, own_matrices], (own_matrices, uses_all_or_raises),
                [counts_the_dimensions, own_matrices]]}

WRONG = {
    "who_bites": [
        (HAND | {"W_q": W_Q / 100}, "head 0 are 0.47 0.26 0.26"),
        (HAND | {"W_q": 0 * W_Q}, "all keys have the same score"),
        (HAND | {"W_k": WORDS_K}, "Head 0 follows the word dog"),
        (HAND | {"W_k": W_K[:, [3, 1, 2, 0, 4, 5]]}, "Head 0 attends to the last position"),
        (HAND | {"W_v": PLACES_V}, "the position to which it attends, and not the word"),
        (HAND | {"W_v": 2 * W_V}, "2.00 0.00 0.00 where dog is wanted"),
        (HAND | {"W_q": W_Q.T, "W_k": W_K.T, "W_v": W_V.T}, "every matrix transposed"),
        (HAND | {"W_q": W_Q * SLICE, "W_k": W_K * SLICE, "W_v": W_V * SLICE},
         "gets only a slice of x"),
        (HAND | {"W_q": np.where(W_Q > 0, np.inf, 0)}, "infinity times"),
        (HAND | {"W_v": W_V[:, :3]}, "(6, 3), not (6, 6)"),
        (HAND | {"W_v": None}, "Still open: W_v"),
        (HAND | {"as one head": None}, "The two heads are right. Still open: as one head"),
        (HAND | {"as one head": [1, 0, 0, 0, 0, 1]}, "your prediction is that of two heads"),
        (HAND | {"as one head": [1, 0, 1, 1, 0, 1]}, "sum to 2"),
        (HAND | {"as one head": [1, 0, 0, 1, 0, 0]}, "Which keys have the largest scores"),
        (HAND | {"as one head": [0.5, 0, 0.5]}, "six numbers"),
        (HAND | {"W_q": "random"}, "raises ValueError")],
    "causal_heads": [
        (layer(project=False), "times W_o"),
        (layer(keep=lambda n: np.ones((n, n), bool)), "right without a mask"),
        (layer(keep=lambda n: np.tri(n, dtype=bool).T), "The mask is inverted"),
        (layer(keep=lambda n: np.tri(n, k=-1, dtype=bool)), "may position 0 attend to itself"),
        (layer(keep=lambda n: np.tri(n, k=1, dtype=bool)),
         "Output 3 changes when only the last token changes"),
        (layer(divisor=lambda d_head, n_heads: 1), "not divided by √d_head"),
        (layer(divisor=lambda d_head, n_heads: (d_head * n_heads) ** 0.5), "divided by √d_model"),
        (layer(divisor=lambda d_head, n_heads: d_head), "right shape and is causal"),
        (layer(axis=0), "sums over the queries"),
        (layer(late=True), "no longer sum to 1"),
        (layer(columns=lambda h: 0), "the columns of head 0"),
        (split_first, "project first"),
        (layer(merge=torn), "merged by a reshape"),
        (layer(merge=np.vstack), "raises ValueError"),
        (lambda x, w, n_heads: layer()(x, w, 1), "a single head"),
        (lambda x, w, n_heads: layer()(x, w, n_heads).T, "the output should be (5, 13)"),
        (lambda x, w, n_heads: print(end=""), "is a return missing"),
        (layer()(np.ones((5, 9)), {name: np.ones((9, 9)) for name in ("W_q", "W_k", "W_v", "W_o")},
                 3), "without calling it")],
    "thrifty": [
        ([uses_all, uses_all_or_raises], "catch the same bug"),
        ([uses_all, heads_differ], "heads_differ: thrifty_heads passes"),
        ([shape, own_matrices], "shape: thrifty_heads passes"),
        ([causal, own_matrices], "causal: this is a false alarm"),
        ([both_at_once, own_matrices], "passes as soon as one of the two bugs is fixed"),
        ([inverted, own_matrices], "inverted: its result is inverted"),
        ([uses_all, open_still], "open_still is still open"),
        ([uses_all, raises], "raises IndexError, at `return program(x)[3]`"),
        (uses_all, "a list of two functions")]}
