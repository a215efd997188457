"""Checks of arguments: they raise an error that says what is wrong and what the likely cause is.

They work on NumPy, PyTorch, TensorFlow and JAX arrays and import no framework themselves.
"""

import sys

import numpy as np

from .compare import check_shapes, dtype_name, to_numpy
from .numbers import count, counts, layer
from .sides import LEFT_OUT, framework, sides


def divisible(d_model, n_heads):
    """Return d_model // n_heads.

    Raises TypeError unless both are integers, and ValueError when n_heads does not divide d_model.
    """
    layer(d_model, n_heads)
    return d_model // n_heads


def heads(x, n_heads):
    """Return the head dimension of x, (b, i, h * d) -> d.

    Raises ValueError unless x has three axes and n_heads divides the size of the last, TypeError
    unless it is an array.
    """
    if not hasattr(x, "shape"):
        raise TypeError(f"expected an array or a tensor, got {type(x).__name__}")
    if len(x.shape) != 3:
        raise ValueError(f"expected three axes (batch, length, d_model), got {tuple(x.shape)}")
    return divisible(x.shape[-1], n_heads)


def keep(keep, q, k, v=LEFT_OUT, grouped=False):
    """Return ``keep`` as a bool array of q's framework and device, or None when it is None.

    ``q`` is (…, i, d), ``k`` is (…, j, d), and keep must broadcast to (…, i, j); True = may attend.
    Raises TypeError when keep is not bool, ValueError when its shape cannot broadcast or is
    ambiguous, and as ``checks.sides`` does for q, k and ``v``.
    """
    sides(q, k, v, grouped)
    return None if keep is None else _fitting(keep, (*q.shape[:-1], k.shape[-2]), q)


def drop(mask, q, k, v):
    """Return keep for a ``mask`` of the opposite sense, **True = drop**; None stays None.

    ``q`` is (b, i, e), ``k`` and ``v`` are (b, j, e), and mask must broadcast to (b, i, j). Raises
    as ``keep`` and ``check_shapes`` do. The shapes must be checked here, because einsum broadcasts
    an axis of size 1: a v with one token for seven keys would raise no error.
    """
    check_shapes("b i e, b j e, b j e", q, k, v)
    shape = (*q.shape[:-1], k.shape[-2])
    return None if mask is None else ~_fitting(mask, shape, q, "mask", "True = drop")


def per_head(q, k, v, n_heads, keep=None):
    """Return (d, keep): the head dimension, and the mask expanded to (b, h, i, j).

    ``q`` is (b, i, h * d), ``k`` and ``v`` are (b, j, h * d). ``keep`` must broadcast to
    (b, h, i, j); None becomes all True. Raises as ``heads`` and ``keep`` do, and ValueError when
    the last axis of k or v differs from that of q.
    """
    d_head = heads(q, n_heads)
    for name, side in (("k", k), ("v", v)):
        if heads(side, n_heads) != d_head:
            raise ValueError("q, k and v must have the same d_model (last axis): q has "
                             f"{q.shape[-1]}, {name} has {side.shape[-1]}")
    sides(q, k, v)
    shape = (q.shape[0], n_heads, q.shape[1], k.shape[1])
    keep = _fitting(np.True_ if keep is None else keep, shape, q)
    return d_head, sys.modules[framework(q)].broadcast_to(keep, shape)


def _fitting(keep, scores, like, name="keep", sense="True = may attend"):
    """Return a bool mask that broadcasts to the shape ``scores``, in the framework of ``like``."""
    keep = boolean(keep, name, sense)
    _broadcasts(tuple(keep.shape), scores, name)
    while len(keep.shape) < 2:
        keep = keep[None]  # SDPA needs at least (i, j)
    home = framework(like)
    if home == "torch":
        return sys.modules["torch"].as_tensor(keep, device=like.device)
    if home == "tensorflow":
        return sys.modules["tensorflow"].convert_to_tensor(keep)
    if home == "jax":
        return sys.modules["jax"].numpy.asarray(keep)
    return to_numpy(keep)


def boolean(mask, name="keep", sense="True = may attend"):
    """Return a bool mask unchanged; nested lists become an array that any framework accepts.

    Raises TypeError for any other dtype, with the likely meaning of the mask. ``name`` is the name
    of the mask in the message, ``sense`` the meaning of True.
    """
    if "bool" not in dtype_name(mask):
        raise TypeError(_not_bool(mask, name, sense))
    is_tensor = hasattr(mask, "shape") and not isinstance(mask, (np.ndarray, np.generic))
    # PyTorch warns about read-only arrays and raises an error for negative strides.
    return mask if is_tensor else np.require(mask, requirements="CW")


def _not_bool(mask, name, sense):
    """Return the message for a mask that is not bool."""
    dtype = dtype_name(mask)
    article = "an" if dtype.startswith("int") else "a"
    if "jax" in sys.modules and isinstance(mask, sys.modules["jax"].core.Tracer):
        return f"{name} must be bool ({sense}), got {dtype}"  # its values are not known yet
    values = np.unique(to_numpy(mask))
    if np.isin(values, (0, 1)).all():
        return (f"{name} must be bool ({sense}), got {article} {dtype} mask of 0 and 1; most "
                "programs would *add* it to the scores, which masks nothing")
    if "float" in dtype and np.isin(values, (0, -np.inf)).all():
        opposite = "~" if "drop" in sense else ""
        return (f"{name} must be bool ({sense}), got a {dtype} mask of 0 and -inf, which is an "
                f"additive mask; pass {opposite}utils.masks.from_additive({name})")
    return f"{name} must be bool ({sense}), got {dtype}"


def _broadcasts(shape, scores, name):
    """Raise ValueError, naming the axis, when a mask of ``shape`` does not fit the scores."""
    letters = {2: "ij", 3: "bij"}.get(len(scores), "…" * (len(scores) - 4) + "bhij")
    if len(shape) > len(scores):
        raise ValueError(f"{name} {shape} has more axes than the scores {scores}")
    if len(shape) == 3 and len(scores) == 4 and shape[0] != 1:
        raise ValueError(
            f"{name} {shape} is ambiguous for scores (b, h, i, j) = {scores}: if its first axis is "
            f"the examples, pass {name}[:, None]; if it is the heads, {name}[None]")
    for letter, have, want in zip(reversed(letters), reversed(shape), reversed(scores),
                                  strict=False):
        if have not in (1, want):
            raise ValueError(f"{name} {shape} does not broadcast to the scores {scores}: axis "
                             f"{letter} has size {want} in the scores, {have} in {name}"
                             + _likely_cause(shape, scores, name))


def _likely_cause(shape, scores, name):
    """Return the likely cause of a wrong ``shape``, the end of a message, or ""."""
    if shape[-2:] == (scores[-1], scores[-2]):
        return "; is it transposed? The axis of queries comes before that of keys"
    if shape == (scores[0], scores[-1]):
        nones = ", None" * (len(scores) - 2)
        return f"; if it masks the keys of each example, pass {name}[:{nones}]"
    return ""


def corner(n_q, n_k, align):
    """Raise ValueError unless the alignment of a causal mask (i, j) is known; n_q, n_k: counts."""
    counts(n_q=n_q, n_k=n_k)
    corners = ("top_left", "bottom_right")
    if align not in corners and (align is not None or n_q != n_k):
        raise ValueError(f"align must be {corners[0]!r} or {corners[1]!r}, or None if n_q == n_k, "
                         f"got align={align!r} with n_q={n_q} and n_k={n_k}")


def lengths(lengths, n_k):
    """Return ``lengths`` as an array (b,). Raises ValueError unless integers in 0 .. n_k."""
    count(n_k, "n_k")
    lengths = to_numpy(lengths)
    if (lengths.ndim != 1 or lengths.dtype.kind not in "iu"
            or (lengths < 0).any() or (lengths > n_k).any()):
        raise ValueError(f"lengths must be integers (b,) in 0 .. n_k={n_k}, got "
                         f"{lengths.tolist()}")
    return lengths
