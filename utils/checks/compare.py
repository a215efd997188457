"""What equal means: differences that rounding explains, and shapes that fit.

Works on NumPy, PyTorch and TensorFlow without importing a framework that is not there already.
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
