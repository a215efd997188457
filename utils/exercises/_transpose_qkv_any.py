"""The judge of `any_attention`: fold heads and masks, for an attention that takes three axes."""

import numpy as np

from .. import reference, sizes
from ..checks import to_numpy
from ._judges import recognise

BATCH, N_Q, N_K, HEADS = sizes.BATCH, sizes.N_Q, sizes.N_K, sizes.HEADS
D, D_V = sizes.D_HEAD, sizes.D_V
FULL = BATCH, HEADS, N_Q, N_K                                            # (b, h, i, j)


def judge(multi_head):
    """Judge multi_head(f, q, k, v, num_heads, keep)."""
    for name, scores in SCORES.items():
        for mask in _masks():
            message = _wrong(multi_head, Attention(scores), mask)
            if message:
                return f"{name} and a mask {mask.shape}: {message}"
    return ""


def _wrong(multi_head, f, mask):
    got = multi_head(f, *_inputs(), HEADS, mask.copy())
    if got is None:
        return "it returns None: is the `return` missing?"
    if not isinstance(got, tuple | list) or len(got) != 2:
        return "it must return two arrays, the context and the weights."
    context, weights = map(to_numpy, got)
    if context.shape != (BATCH, N_Q, HEADS * D_V):
        folded = (" The heads are still folded into the batch."
                  if len(context) == BATCH * HEADS else "")
        return f"the context is {context.shape}, not {(BATCH, N_Q, HEADS * D_V)}.{folded}"
    message = recognise(context, _known_contexts(f.scores, mask))
    if message is None:
        return ("the context is wrong. Fold numbers that say where they come from, as on this "
                "page, and look at the rows and masks that f gets.")
    return message or _wrong_weights(weights, f, mask)


def _wrong_weights(weights, f, mask):
    if weights.shape != FULL:
        folded = (" They are still folded." if weights.shape == (BATCH * HEADS, N_Q, N_K) else "")
        return f"the context is right, but the weights are {weights.shape}, not {FULL}.{folded}"
    expected = _weights(f.scores, mask)                                  # (b, h, i, j)
    message = recognise(weights, [
        (expected, ""),
        (expected.reshape(HEADS, BATCH, N_Q, N_K).swapaxes(0, 1),
         "the context is right, but weights[b, h] are not those of head h of example b. Which row "
         "of the folded batch is that?")])
    if message is None:
        return "the context is right, but the weights are not those that f computed."
    if message == "" and f.calls > 1:
        return (f"the numbers are right, but f is called {f.calls} times: fold, so that one call "
                "computes all heads.")
    return message


class Attention:
    """Attention for three axes, (n, i, d), (n, j, d), (n, j, d_v), (n, i, j); counts calls.

    Returns (context, weights), (n, i, d_v) and (n, i, j). Raises ValueError for arrays that do not
    fit.
    """

    def __init__(self, scores):
        self.scores, self.calls = scores, 0

    def __call__(self, q, k, v, keep=None):
        """Return the context and the weights."""
        self.calls += 1
        q, k, v = map(np.asarray, (q, k, v))
        for name, side in (("q", q), ("k", k), ("v", v)):
            if side.ndim != 3:
                raise ValueError(f"f takes arrays with three axes, and {name} is {side.shape}")
        if not len(q) == len(k) == len(v) or q.shape[-1] != k.shape[-1]:
            raise ValueError(f"q is {q.shape}, but k is {k.shape} and v is {v.shape}: fold all "
                             "three alike")
        if k.shape[1] != v.shape[1]:
            raise ValueError(f"k is {k.shape} and v is {v.shape}: there must be a value for each "
                             "key. (A head's values may have another size than its keys.)")
        if keep is None:
            raise ValueError("f needs the mask, too")
        keep, want = np.asarray(keep), (len(q), q.shape[1], k.shape[1])
        if keep.shape != want:
            raise ValueError(f"f got a mask of shape {keep.shape} for {len(q)} rows: it needs "
                             f"{want}, one (i, j) for each row")
        weights = reference.softmax(np.where(keep, self.scores(q, k), -np.inf))
        return weights @ v, weights


SCORES = {
    "with the scaled dot product": lambda q, k: q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]),
    "with scores that are minus the squared distance": lambda q, k: -np.square(
        q[..., :, None, :] - k[..., None, :, :]).sum(-1),
    "with equal scores": lambda q, k: np.zeros((*q.shape[:-1], k.shape[-2]))}


def _inputs():
    rng = np.random.default_rng(0)
    return [rng.standard_normal((BATCH, n, HEADS * d)) for n, d in (
        (N_Q, D), (N_K, D), (N_K, D_V))]


def _masks():
    """Return masks for the examples, for the queries, and for all four axes."""
    padding = np.arange(N_K) < np.array([5, 3])[:, None, None, None]   # (b, 1, 1, j)
    causal = np.tri(N_Q, N_K, N_K - N_Q, dtype=bool)[None, None]         # (1, 1, i, j)
    each = np.random.default_rng(1).random(FULL) < 0.5
    each[..., 0] = True
    return padding, causal, each


def _split(x, torn=False, interleaved=False):
    """Return (b, h, i, d), with a mistake on demand."""
    b, n, width = x.shape
    if torn:
        return x.reshape(b, HEADS, n, width // HEADS)
    if interleaved:
        return x.reshape(b, n, width // HEADS, HEADS).transpose(0, 3, 1, 2)
    return x.reshape(b, n, HEADS, width // HEADS).transpose(0, 2, 1, 3)


def _weights(scores, mask, **split):
    q, k, _ = (_split(side, **split) for side in _inputs())
    return reference.softmax(np.where(mask, scores(q, k), -np.inf))      # (b, h, i, j)


def _known_contexts(scores, mask):
    """Yield (context, message) of the right program and of known mistakes."""
    full = np.broadcast_to(mask, FULL)

    def context(mask=full, torn_out=False, **split):
        found = _weights(scores, mask, **split) @ _split(_inputs()[2], **split)
        if not torn_out:
            found = found.transpose(0, 2, 1, 3)
        return found.reshape(BATCH, N_Q, HEADS * D_V)

    yield context(), ""
    for mixed in (full.swapaxes(0, 1).reshape(FULL),
                  full.reshape(HEADS, BATCH, N_Q, N_K).swapaxes(0, 1)):
        yield (context(mixed),
               "some rows get the mask of another row. Write the rows that f gets below each "
               "other, and beside each its example and its head: mask and rows must agree.")
    yield (context(full[:, :1]), "all heads of an example get the mask of head 0.")
    yield (context(full[:1]), "all examples get the mask of example 0.")
    yield context(np.ones(FULL, bool)), "f gets a mask that masks no key."
    yield context(~full), "the mask that f gets is inverted."
    yield (context(torn=True),
           "the heads are torn on the way in: before the last reshape, the axes must be "
           "(b, h, i, d).")
    yield (context(torn_out=True),
           "the heads are torn on the way out: before the last reshape, the axes must be "
           "(b, i, h, d).")
    yield (context(torn=True, torn_out=True),
           "the heads are torn, on the way in and on the way out: both transposes are missing.")
    yield (context(interleaved=True),
           f"head 0 gets the dimensions 0, {HEADS}, {2 * HEADS} …, but a head's dimensions are "
           "neighbours.")
