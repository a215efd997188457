"""What a kernel answers when it is called: whether it fits, and whether it is causal."""

import numpy as np

from .. import _subject
from .names import looks_back


def refused(adapted, framework, masked, square):
    """Return (why a kernel in the doctor's form is not one, or "", whether it can be called)."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, n, d)) for n, d in ((5, 4), (7, 4), (7, 6)))
    answer = None
    sides = (q, q, q) if square else (q, k, v)
    for dtype in ("float64", "float32"):
        subject = _subject.Subject(adapted, framework, dtype)
        answer = subject(*sides, None)
        if not answer.error and answer.out.shape == (*q.shape[:3], sides[2].shape[3]):
            if _mixes_heads(subject, sides, answer):
                return "mixes its heads", True
            return _masks_rightly(subject, answer, sides, masked) if masked else ("", True)
    return answer.error or f"returns shape {answer.out.shape}", False


def _mixes_heads(subject, sides, before):
    """Return whether the values of one head change the context of another one.

    Then these are hardly the axes that are meant.
    """
    q, k, v = (side.copy() for side in sides)
    v[:, 0] *= -2.0
    after = subject(q, k, v, None)
    return not after.error and not np.allclose(before.out[:, 1:], after.out[:, 1:], atol=1e-4)


def _masks_rightly(subject, answer, sides, which):
    """Return ("", True) if masked keys do not matter and others do, or else what is wrong."""
    q, k, v = sides
    keep = np.ones((2, 3, q.shape[2], k.shape[2]), bool)
    if which == "(b,)":
        keep[0, ..., -3:], keep[1, ..., -1:] = False, False
    else:
        keep[..., 1:3] = False  # not the last ones, which a causal mask may hide as well
    changed = [np.where(keep[..., :1, :].swapaxes(-1, -2), side, -2 * side) for side in (k, v)]
    before, after = subject(q, k, v, keep), subject(q, *changed, keep)
    if before.error or after.error:
        return before.error or after.error, False
    if before.out.shape != answer.out.shape:
        return f"returns shape {before.out.shape} with a mask", False
    if not np.allclose(before.out, after.out, atol=1e-4):
        return "attends to keys that are masked, whatever its mask means", True
    if np.allclose(before.out, answer.out):
        return "gives the same with and without a mask", True
    return "", True


def hides_later(adapted, framework):
    """Return whether a kernel for n_q == n_k hides later keys by itself."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 2, 5, 4)) for _ in range(3))
    subject = _subject.Subject(adapted, framework)
    before = subject(q, k, v, None)
    k[..., -1, :], v[..., -1, :] = 3.0, -3.0
    after = subject(q, k, v, None)
    if before.error or after.error:
        return False
    later = np.abs(before.out - after.out).max(axis=(0, 1, 3)) > 1e-6
    k[..., 0, :], v[..., 0, :] = -3.0, 3.0
    start = np.abs(subject(q, k, v, None).out - after.out).max(axis=(0, 1, 3)) > 1e-6
    return looks_back(later, start)
