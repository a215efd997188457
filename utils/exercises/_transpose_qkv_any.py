"""The judge of `any_attention`: fold heads into the batch, for any attention of three axes."""

import numpy as np

from utils import reference, sizes
from utils.checks import to_numpy
from utils.exercises._judges import recognise

BATCH, N_Q, N_K, HEADS, D = sizes.BATCH, sizes.N_Q, sizes.N_K, sizes.HEADS, sizes.D_HEAD
LENGTHS = np.array([7, 3])


def judge(multi_head):
    """Judge multi_head(f, q, k, v, num_heads, lengths)."""
    for name, scores in SCORES.items():
        f = Attention(scores)
        got = multi_head(f, *_inputs(), HEADS, LENGTHS.copy())
        message = _wrong(got, f)
        if message:
            return f"{name}: {message}"
    return ""


def _wrong(got, f):
    if got is None:
        return "it returns None: is the `return` missing?"
    got = to_numpy(got)
    if got.shape != (BATCH, N_Q, HEADS * D):
        folded = " The heads are still folded into the batch." if len(got) == BATCH * HEADS else ""
        return f"it returns {got.shape}, not {(BATCH, N_Q, HEADS * D)}.{folded}"
    message = recognise(got, _known_contexts(f.scores))
    if message == "" and f.calls > 1:
        return (f"the numbers are right, but f is called {f.calls} times: fold, so that one call "
                "computes all heads.")
    if message is None:
        message = ("the numbers are wrong. Fold numbers that say where they come from, as on this "
                   "page, and look at the rows that f gets.")
    return message


class Attention:
    """Attention for three axes, (n, i, d), (n, j, d), (n, j, d), (n,) -> (n, i, d); counts calls.

    Raises ValueError for arrays that do not fit.
    """

    def __init__(self, scores):
        self.scores, self.calls = scores, 0

    def __call__(self, q, k, v, lengths=None):
        """Return the context."""
        self.calls += 1
        q, k, v = map(np.asarray, (q, k, v))
        for name, side in (("q", q), ("k", k), ("v", v)):
            if side.ndim != 3:
                raise ValueError(f"f takes arrays with three axes, and {name} is {side.shape}")
        if not len(q) == len(k) == len(v) or q.shape[-1] != k.shape[-1]:
            raise ValueError(f"q is {q.shape}, but k is {k.shape} and v is {v.shape}: fold all "
                             "three alike")
        if lengths is None:
            raise ValueError("f needs the lengths, too")
        lengths = np.asarray(lengths)
        if lengths.shape != q.shape[:1]:
            raise ValueError(f"f got lengths of shape {lengths.shape} for {len(q)} rows: it needs "
                             "one for each row")
        keep = (np.arange(k.shape[1]) < lengths[:, None])[:, None]       # (n, 1, j)
        scores = np.where(keep, self.scores(q, k), -np.inf)              # (n, i, j)
        return reference.softmax(scores) @ v


SCORES = {
    "with the scaled dot product": lambda q, k: q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]),
    "with scores that are minus the squared distance": lambda q, k: -np.square(
        q[:, :, None] - k[:, None]).sum(-1),
    "with equal scores": lambda q, k: np.zeros((len(q), q.shape[1], k.shape[1]))}


def _inputs():
    rng = np.random.default_rng(0)
    return [rng.standard_normal((BATCH, n, HEADS * D)) for n in (N_Q, N_K, N_K)]


def _split(x, torn=False, interleaved=False):
    """Return (b, h, i, d), with a mistake on demand."""
    b, n, _ = x.shape
    if torn:
        return x.reshape(b, HEADS, n, D)
    if interleaved:
        return x.reshape(b, n, D, HEADS).transpose(0, 3, 1, 2)
    return x.reshape(b, n, HEADS, D).transpose(0, 2, 1, 3)


def _known_contexts(scores):
    """Yield (context, message) of the right program and of known mistakes."""
    repeated, tiled = np.repeat(LENGTHS, HEADS), np.tile(LENGTHS, HEADS)

    def context(lengths=repeated, heads_first=False, split=None, torn_out=False):
        order = (1, 0, 2, 3) if heads_first else (0, 1, 2, 3)
        rows = [_split(side, **(split or {})).transpose(order).reshape(-1, side.shape[1], D)
                for side in _inputs()]
        found = Attention(scores)(*rows, lengths)                        # (b * h, i, d)
        found = found.reshape(*((HEADS, BATCH) if heads_first else (BATCH, HEADS)), N_Q, D)
        found = found.transpose(order)                                   # (b, h, i, d)
        if not torn_out:
            found = found.transpose(0, 2, 1, 3)
        return found.reshape(BATCH, N_Q, HEADS * D)

    yield context(), ""
    yield (context(tiled), "some rows get the length of the other example. Write the rows that f "
                           "gets below each other, and beside each the length of its example.")
    yield (context(repeated, heads_first=True),
           "your row h * b + b' is head h, so examples change fastest, but the lengths are copied "
           "as if heads did. Fold and copy must agree.")
    yield (context(np.full(BATCH * HEADS, N_K)), "f gets lengths that mask no key: the padding is "
                                                 "attended to.")
    yield (context(split={"torn": True}),
           "the heads are torn on the way in: before the last reshape, the axes must be "
           "(b, h, i, d).")
    yield (context(torn_out=True),
           "the heads are torn on the way out: before the last reshape, the axes must be "
           "(b, i, h, d).")
    yield (context(split={"torn": True}, torn_out=True),
           "the heads are torn, on the way in and on the way out: both transposes are missing.")
    yield (context(split={"interleaved": True}),
           "head 0 gets the dimensions 0, 3, 6 and 9, but a head's dimensions are neighbours.")
