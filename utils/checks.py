"""Checks that raise, with a message that says what is wrong and what was probably meant.

``heads``, ``keep``, ``corner`` and ``lengths`` validate the input of the taught programs;
``check_shapes`` and ``check_close`` are what a page proves its claims with. Works on NumPy, PyTorch
and TensorFlow without importing a framework that is not there already.
"""

import sys

import numpy as np

# The largest |got - expected| / max(1, max|expected|) that rounding explains, per dtype.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 2e-2}


def to_numpy(x):
    """Return any framework's array as NumPy; bfloat16 becomes float32, gradients are cut off."""
    if "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor):
        x = x.detach().cpu()
        return x.float().numpy() if dtype_name(x) == "bfloat16" else x.numpy()
    return np.asarray(x)


def dtype_name(x):
    """Return the name of an array's dtype, such as "float32", in any framework."""
    dtype = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")


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


def sequence_first(query, key, value, d_model):
    """Raise ValueError unless query is (i, b, d_model), and key and value are (j, b, d_model)."""
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if ([len(shape) for shape in shapes] != [3, 3, 3] or shapes[1] != shapes[2]
            or any(shape[1:] != (shapes[0][1], d_model) for shape in shapes)):
        raise ValueError(
            f"query, key and value must be (i, b, {d_model}), (j, b, {d_model}), "
            f"(j, b, {d_model}), the sequence first, got {', '.join(map(str, shapes))}")


def sequence_mask(mask, query_shape, key_shape):
    """Return a mask (1 or i, j, 1 or b) as bool, True = may attend, for scores (i, j, b, h).

    ``mask`` is bool, or numbers that are all 0 or 1, floats not 0 alone. ``query_shape`` (i, b, e)
    and ``key_shape`` (j, b, e). Raises TypeError for other numbers, ValueError for a shape that
    does not fit.
    """
    if "bool" not in dtype_name(mask):
        if not np.isin(to_numpy(mask), (0, 1)).all():
            raise TypeError("mask has other numbers than 1 (may attend) and 0 (may not); if it "
                            "was made to be added, 0 and -inf, it would be read the wrong way "
                            "round: pass bool, utils.masks.from_additive(mask)")
        if "float" in dtype_name(mask) and not to_numpy(mask).any():
            raise TypeError("a float mask of zeros only forbids nothing when it is added, and "
                            "everything when 1 = may attend: pass bool (True = may attend)")
        mask = mask == 1 if hasattr(mask, "shape") else to_numpy(mask) == 1
    mask, shape = boolean(mask), np.shape(mask)
    (n_q, batch), n_k = query_shape[:2], key_shape[0]
    if len(shape) != 3 or any(have not in allowed for have, allowed in
                              zip(shape, ((1, n_q), (n_k,), (1, batch)), strict=True)):
        raise ValueError(f"mask must be (1 or {n_q}, {n_k}, 1 or {batch}), that is (i, j, b), "
                         f"got {tuple(shape)}"
                         + {(batch, n_q, n_k): "; the batch comes last here",
                            (n_q, n_k): "; one for all examples is mask[:, :, None]",
                            }.get(tuple(shape), ""))
    return mask


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


def valid_lens(valid_lens, X):
    """Raise unless ``valid_lens`` are integers, (b,) or (b, i), for the scores X, (b, i, j).

    The values, 0 .. n_k, are checked where they are known: not while TensorFlow traces a function.
    Raises TypeError for a dtype that is not integer, ValueError for another shape or value.
    """
    name, shape, scores = dtype_name(valid_lens), tuple(np.shape(valid_lens)), tuple(X.shape)
    if "int" not in name:
        raise TypeError(f"valid_lens must be integers, how many keys each may attend to, got {name}"
                        + ("; lengths of a mask: keep.sum(axis=-1)" if "bool" in name else ""))
    if len(shape) not in (1, 2) or any(have != want for have, want in zip(
            shape, scores, strict=False) if None not in (have, want)):
        raise ValueError(f"valid_lens {shape} does not fit scores {scores}: one length for each "
                         f"example, {scores[:1]}, or for each query, {scores[:2]}")
    if not hasattr(valid_lens, "graph") and scores[-1] is not None:
        values = to_numpy(valid_lens)
        if (values < 0).any() or (values > scores[-1]).any():
            raise ValueError(f"valid_lens must be in 0 .. n_k={scores[-1]}, got {values.tolist()}")


def check_shapes(pattern, *arrays):
    """Check shapes against letters, ``check_shapes("b h i d, b h j d -> b h i j", q, k, scores)``.

    A letter must have one size throughout, a number must be that size. Returns the sizes, a dict.
    Raises ValueError naming the array, the axis and both sizes.
    """
    terms = [term.split() for term in pattern.replace("->", ",").split(",")]
    if len(terms) != len(arrays):
        raise ValueError(f"{pattern!r} names {len(terms)} arrays, got {len(arrays)}")
    sizes = {}
    for place, (term, array) in enumerate(zip(terms, arrays, strict=True), start=1):
        shape = tuple(array.shape)
        if len(term) != len(shape):
            raise ValueError(f"array {place} should be ({', '.join(term)}), got {shape}")
        for letter, size in zip(term, shape, strict=True):
            want = int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
            if size != want:
                before = "" if letter.isdigit() else f" and {want} before"
                raise ValueError(f"array {place} should be ({', '.join(term)}), got {shape}: "
                                 f"axis {letter} is {size} here{before}")
    return sizes


def difference(got, expected):
    """Return max|got - expected| / max(1, max|expected|), a float; nan when a NaN is not shared.

    Infinities and NaNs at the same places count as equal.
    """
    got, expected = (to_numpy(x).astype(np.float64) for x in (got, expected))
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if same.all():
        return 0.0
    finite = np.abs(expected[np.isfinite(expected)])
    with np.errstate(invalid="ignore"):
        gaps = np.where(same, 0.0, np.abs(got - expected))
    return float(gaps.max() / max(1.0, finite.max(initial=0.0)))


def check_close(got, expected, tolerance=None):
    """Print that two arrays are equal up to rounding, or raise AssertionError saying where not.

    The difference is relative to max(1, max|expected|); ``tolerance`` defaults to what the dtype
    of ``got`` allows (``TOLERANCES``). Shapes must be equal, not merely broadcast.
    """
    name = dtype_name(got)
    tolerance = TOLERANCES.get(name, 0.0) if tolerance is None else tolerance
    a, b = to_numpy(got), to_numpy(expected)
    if a.shape != b.shape:
        raise AssertionError(f"shapes differ: got {a.shape}, expected {b.shape}")
    gap = difference(a, b)
    if not gap <= tolerance:
        a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        worst = tuple(int(n) for n in np.unravel_index(
            np.argmax(np.where(np.isnan(gaps), np.inf, gaps)), gaps.shape))
        raise AssertionError(f"not equal: largest difference {gap:.1e}, allowed {tolerance:.0e} "
                             f"({name}); at {worst} got {a[worst]:.6g}, expected {b[worst]:.6g}")
    print(f"equal: {a.shape} {name}, largest difference within {tolerance:.0e}")
