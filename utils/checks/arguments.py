"""Checks of arguments: they raise, and the message says what is wrong and what was probably meant.

Works on NumPy, PyTorch and TensorFlow without importing a framework that is not there already.
"""

import sys

import numpy as np

from utils.checks.compare import check_shapes, dtype_name, to_numpy


def divisible(d_model, n_heads):
    """Return d_model // n_heads. Raises ValueError when a head would get part of a feature."""
    if n_heads < 1 or d_model % n_heads:
        divisors = [n for n in range(1, d_model + 1) if d_model % n == 0]
        nearest = sorted(sorted(divisors, key=lambda n: abs(n - n_heads))[:4])
        raise ValueError(
            f"d_model={d_model} is not divisible by n_heads={n_heads}"
            + (f" (remainder {d_model % n_heads})" if n_heads > 0 else "")
            + f"; nearest: {', '.join(map(str, nearest))}")
    return d_model // n_heads


def heads(x, n_heads):
    """Return the features of one head of x, (b, i, h * d) -> d.

    Raises ValueError when x has not three axes or n_heads does not divide the last.
    """
    if len(x.shape) != 3:
        raise ValueError(f"expected (batch, length, d_model), three axes, got {tuple(x.shape)}")
    return divisible(x.shape[-1], n_heads)


def keep(keep, q, k):
    """Return ``keep`` as a bool array of q's framework and device, or None when it is None.

    ``q`` (…, i, d), ``k`` (…, j, d): keep must broadcast to (…, i, j); True = may attend. Raises
    TypeError for anything but bool, ValueError for a shape that cannot broadcast or is ambiguous.
    Raises ValueError, too, when q and k do not have the same number of features.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k are compared feature by feature: q has {q.shape[-1]}, "
                         f"k has {k.shape[-1]}")
    return None if keep is None else _fitting(keep, (*q.shape[:-1], k.shape[-2]), q)


def drop(mask, q, k, v):
    """Return keep for a ``mask`` of the opposite sense, **True = drop**; None stays None.

    ``q`` (b, i, e), ``k`` and ``v`` (b, j, e): mask must broadcast to (b, i, j). Raises as ``keep``
    and ``check_shapes`` do. (einsum itself repeats an axis of size 1, so a v of one word for seven
    keys would go unnoticed.)
    """
    check_shapes("b i e, b j e, b j e", q, k, v)
    shape = (*q.shape[:-1], k.shape[-2])
    return None if mask is None else ~_fitting(mask, shape, q, "mask", "True = drop")


def per_head(q, k, v, n_heads, keep=None):
    """Return (d, keep): the features of one head, and a mask (b, h, i, j) with one for each.

    ``q`` (b, i, h * d), ``k`` and ``v`` (b, j, h * d). ``keep`` as in the function of that name,
    to broadcast to (b, h, i, j); None becomes all True. Raises as ``heads`` and ``keep`` do, and
    ValueError when k or v is not as wide as q.
    """
    d_head = heads(q, n_heads)
    for name, side in (("k", k), ("v", v)):
        if heads(side, n_heads) != d_head:
            raise ValueError(f"q, k and v are cut at the same places: q has {q.shape[-1]} features "
                             f"and {name} has {side.shape[-1]}")
    shape = (q.shape[0], n_heads, q.shape[1], k.shape[1])
    keep = _fitting(np.True_ if keep is None else keep, shape, q)
    framework = type(q).__module__.partition(".")[0]
    return d_head, sys.modules[framework].broadcast_to(keep, shape)


def _fitting(keep, scores, like, name="keep", sense="True = may attend"):
    """Return a bool mask that broadcasts to the shape ``scores``, in the framework of ``like``."""
    keep = boolean(keep, name, sense)
    _broadcasts(tuple(keep.shape), scores, name)
    while len(keep.shape) < 2:
        keep = keep[None]  # SDPA takes no fewer than (i, j)
    homes = {kind.__module__.partition(".")[0] for kind in type(like).__mro__}  # subclasses, too
    if "torch" in homes:
        return sys.modules["torch"].as_tensor(keep, device=like.device)
    if "tensorflow" in homes:
        return sys.modules["tensorflow"].convert_to_tensor(keep)
    return to_numpy(keep)


def boolean(mask, name="keep", sense="True = may attend"):
    """Return a mask that is bool, as it is (nested lists as an array, ready for any framework).

    Raises TypeError, saying what the mask probably is, for any other dtype; ``name`` is what the
    message calls it, ``sense`` what True means.
    """
    if "bool" not in dtype_name(mask):
        raise TypeError(_not_bool(mask, name, sense))
    is_tensor = hasattr(mask, "shape") and not isinstance(mask, (np.ndarray, np.generic))
    # PyTorch warns of arrays that cannot be written to and refuses negative strides.
    return mask if is_tensor else np.require(mask, requirements="CW")


def _not_bool(mask, name, sense):
    """Return the message for a mask that is not bool."""
    dtype = dtype_name(mask)
    article = "an" if dtype.startswith("int") else "a"
    values = np.unique(to_numpy(mask))
    if np.isin(values, (0, 1)).all():
        return (f"got {article} {dtype} mask of only 0 and 1; in most programs it would be *added* "
                f"to the scores and mask nothing; pass bool ({sense})")
    if "float" in dtype and np.isin(values, (0, -np.inf)).all():
        opposite = "~" if "drop" in sense else ""
        return (f"got a {dtype} mask of 0 and -inf, which is made to be added; "
                f"pass bool ({sense}), {opposite}utils.masks.from_additive(mask)")
    return f"{name} must be bool ({sense}), got {dtype}"


def _broadcasts(shape, scores, name):
    """Raise ValueError, naming the axis, when a mask of ``shape`` does not fit the scores."""
    letters = {2: "ij", 3: "bij"}.get(len(scores), "…" * (len(scores) - 4) + "bhij")
    if len(shape) > len(scores):
        raise ValueError(f"{name} {shape} has more axes than the scores {scores}")
    if len(shape) == 3 and len(scores) == 4 and shape[0] != 1:
        raise ValueError(
            f"{name} {shape} is ambiguous against scores (b, h, i, j) = {scores}: is its first "
            f"axis the examples or the heads? pass {name}[:, None] or {name}[None]")
    for letter, have, want in zip(reversed(letters), reversed(shape), reversed(scores),
                                  strict=False):
        if have not in (1, want):
            raise ValueError(f"{name} {shape} does not fit scores {scores}: axis {letter} of the "
                             f"scores has {want}, {name} has {have}"
                             + _likely_cause(shape, scores, name))


def _likely_cause(shape, scores, name):
    """Return what was probably meant by a mask of ``shape``, or nothing."""
    if shape[-2:] == (scores[-1], scores[-2]):
        return "; is it transposed? queries come first, then keys"
    if shape == (scores[0], scores[-1]):
        nones = ", None" * (len(scores) - 2)
        return f"; a mask over the keys of each example is {name}[:{nones}]"
    return ""


def corner(n_q, n_k, align):
    """Raise ValueError unless it is clear which corner of (i, j) a causal mask hangs from."""
    corners = ("top_left", "bottom_right")
    if align not in corners and (align is not None or n_q != n_k):
        raise ValueError(f"n_q={n_q} and n_k={n_k}, align={align!r}: say which corner the "
                         f"mask hangs from, align={corners[0]!r} or {corners[1]!r}")


def lengths(lengths, n_k):
    """Return ``lengths`` as an array (b,). Raises ValueError unless integers in 0 .. n_k."""
    lengths = np.asarray(lengths)
    if (lengths.ndim != 1 or lengths.dtype.kind not in "iu"
            or (lengths < 0).any() or (lengths > n_k).any()):
        raise ValueError(f"lengths must be (b,) integers in 0 .. n_k={n_k}, got "
                         f"{lengths.tolist()}")
    return lengths
