"""Compare arrays: up to rounding, and by their shapes. "Equal" is defined here, once.

Works on NumPy, PyTorch and TensorFlow arrays and imports no framework itself.
"""

import sys

import numpy as np

# The largest ``difference`` that counts as rounding, for each dtype.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 2e-2}


def to_numpy(x):
    """Return any framework's array as NumPy, detached from its graph; bfloat16 becomes float32."""
    if "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor):
        x = x.detach().cpu()
        return x.float().numpy() if dtype_name(x) == "bfloat16" else x.numpy()
    return np.asarray(x)


def dtype_name(x):
    """Return the name of an array's dtype, such as "float32", in any framework."""
    dtype = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")


def check_shapes(pattern, *arrays, names=None):
    """Check shapes against a pattern of axes, such as "b h i d, b h j d -> b h i j".

    An axis with the same letter must have the same size in all arrays; a number is the size itself.
    Returns the sizes, {letter: size}. Raises ValueError with the array, the axis and both sizes;
    the arrays have these ``names`` there, or numbers.
    """
    terms = [term.split() for term in pattern.replace("->", ",").split(",")]
    if len(terms) != len(arrays):
        raise ValueError(f"the pattern {pattern!r} has {len(terms)} arrays, got {len(arrays)}")
    sizes = {}
    names = names or [f"array {number}" for number in range(1, len(arrays) + 1)]
    for name, term, array in zip(names, terms, arrays, strict=True):
        if not hasattr(array, "shape"):
            raise TypeError(f"{name} must be ({', '.join(term)}), got "
                            f"{type(array).__name__}")
        shape = tuple(array.shape)
        if len(term) != len(shape):
            raise ValueError(f"{name} must be ({', '.join(term)}), got {shape}")
        for letter, size in zip(term, shape, strict=True):
            if letter.isdigit():
                want, source = int(letter), ""
            else:
                want, source = sizes.setdefault(letter, size), " in an earlier array"
            if size != want:
                raise ValueError(f"{name} must be ({', '.join(term)}), got {shape}: axis "
                                 f"{letter} has size {size} here, and {want}{source}")
    return sizes


def difference(got, expected):
    """Return max|got - expected| / max(1, max|expected|), a float: the definition of "equal".

    Infinities and NaNs at the same positions count as equal; a NaN in only one array gives nan.
    """
    return float(differences(got, expected).max(initial=0.0))


def differences(got, expected):
    """Return |got - expected| / max(1, max|expected|), float64: ``difference`` for each element.

    Raises TypeError for what is not an array of real numbers, and ValueError for other shapes.
    """
    got, expected = (_real(x, name) for x, name in ((got, "got"), (expected, "expected")))
    if got.shape != expected.shape and 1 not in (got.size, expected.size):
        raise ValueError(f"shapes differ: got {got.shape}, expected {expected.shape}")
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(same, 0.0, np.abs(got - expected) / largest)


def _real(x, name):
    """Return an array as float64. Raises TypeError unless it holds real numbers."""
    x = to_numpy(x)
    if x.dtype.kind not in "biuf" and "float" not in str(x.dtype):
        raise TypeError(f"{name} must be an array of real numbers, got {x.dtype}")
    return x.astype(np.float64)


def check_close(got, expected, tolerance=None):
    """Print that two arrays are equal up to rounding, or raise AssertionError.

    Their ``difference`` must not exceed ``tolerance``, by default that of the dtype of ``got`` in
    ``TOLERANCES``. The error shows the element with the largest difference. The shapes must be
    equal; they are not broadcast.
    """
    name = dtype_name(got)
    tolerance = TOLERANCES.get(name, 0.0) if tolerance is None else tolerance
    a, b = _real(got, "got"), _real(expected, "expected")
    if a.shape != b.shape:
        raise AssertionError(f"shapes differ: got {a.shape}, expected {b.shape}")
    gap = difference(a, b)
    if not gap <= tolerance:
        gaps = np.nan_to_num(differences(a, b), nan=np.inf)
        worst = tuple(int(n) for n in np.unravel_index(np.argmax(gaps), gaps.shape))
        x, y = float(a[worst]), float(b[worst])
        raise AssertionError(f"not equal: largest difference {gap:.1e}, tolerance {tolerance:.0e} "
                             f"({name}); at {worst} got {x:.6g}, expected {y:.6g}")
    print(f"equal: {a.shape} {name}, largest difference within {tolerance:.0e}")
