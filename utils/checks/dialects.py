"""Checks of arguments for other conventions: sequence first, ``valid_lens``, JAX's parameters."""

import sys

import numpy as np

from .arguments import _broadcasts, boolean
from .compare import check_shapes, dtype_name, to_numpy
from .sides import FRAMEWORKS, array, framework

# The axes of the inputs and the parameters of ``attention.jax``: e and f are d_in, o is d_out.
HEAD_PARAMETERS = {"x": "b i e", "memory": "b j f", "W_q": "e h d", "W_k": "f h d",
                   "W_v": "f h c", "b_q": "h d", "b_k": "h d", "b_v": "h c", "W_o": "h c o",
                   "b_o": "o"}


def sequence_first(query, key, value, d_model):
    """Raise ValueError unless query is (i, b, d_model), and key and value are (j, b, d_model)."""
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if ([len(shape) for shape in shapes] != [3, 3, 3] or shapes[1] != shapes[2]
            or any(shape[1:] != (shapes[0][1], d_model) for shape in shapes)):
        raise ValueError(
            f"query, key and value must be (i, b, {d_model}), (j, b, {d_model}), "
            f"(j, b, {d_model}) with the sequence as first axis, got "
            f"{', '.join(map(str, shapes))}")


def sequence_mask(mask, query_shape, key_shape):
    """Return a mask (1 or i, j, 1 or b) as bool, True = may attend, for scores (i, j, b, h).

    ``mask`` is bool, or numbers that are all 0 or 1; floats must not all be 0. ``query_shape`` is
    (i, b, e), ``key_shape`` is (j, b, e). Raises TypeError for other numbers, ValueError for a
    shape that does not fit.
    """
    if "bool" not in dtype_name(mask):
        if not np.isin(to_numpy(mask), (0, 1)).all():
            raise TypeError("mask must be bool, or 1 (may attend) and 0 (masked), got other "
                            "numbers; an additive mask (0 and -inf) would be inverted: pass "
                            "utils.masks.from_additive(mask)")
        if "float" in dtype_name(mask) and not to_numpy(mask).any():
            raise TypeError("mask must be bool (True = may attend), got a float mask of zeros "
                            "only, which is ambiguous: as an additive mask it masks nothing, as "
                            "1 = may attend it masks every key")
        mask = mask == 1 if hasattr(mask, "shape") else to_numpy(mask) == 1
    mask, shape = boolean(mask), np.shape(mask)
    (n_q, batch), n_k = query_shape[:2], key_shape[0]
    if len(shape) != 3 or any(have not in allowed for have, allowed in
                              zip(shape, ((1, n_q), (n_k,), (1, batch)), strict=True)):
        causes = {(batch, n_q, n_k): "; the batch must be the last axis",
                  (n_q, n_k): "; if it is the same for all examples, pass mask[:, :, None]"}
        raise ValueError(f"mask must be (1 or {n_q}, {n_k}, 1 or {batch}), that is (i, j, b), "
                         f"got {tuple(shape)}{causes.get(tuple(shape), '')}")
    return mask


def valid_lens(valid_lens, X):
    """Raise unless ``valid_lens`` are integers, (b,) or (b, i), for the scores X, (b, i, j).

    The values must be in 0 .. n_k; they are not checked while TensorFlow traces a function, when
    they are unknown. Raises TypeError for a dtype that is not integer, ValueError for a wrong
    shape or value.
    """
    name, shape, scores = dtype_name(valid_lens), tuple(np.shape(valid_lens)), tuple(X.shape)
    if "int" not in name:
        cause = "; for a mask, pass keep.sum(axis=-1)" if "bool" in name else ""
        raise TypeError("valid_lens must be integers, the number of keys that each example or "
                        f"query may attend to, got {name}{cause}")
    if len(shape) not in (1, 2) or any(have != want for have, want in zip(
            shape, scores, strict=False) if None not in (have, want)):
        raise ValueError(f"valid_lens must be {scores[:1]}, one length for each example, or "
                         f"{scores[:2]}, one for each query, got {shape} for scores {scores}")
    if not hasattr(valid_lens, "graph") and scores[-1] is not None:
        values = to_numpy(valid_lens)
        if (values < 0).any() or (values > scores[-1]).any():
            raise ValueError(f"valid_lens must be in 0 .. n_k={scores[-1]}, got {values.tolist()}")


def head_parameters(params, x, memory, keep):
    """Return the mask expanded to (b, h, i, j), a JAX array; ``keep`` None becomes all True.

    The shapes are those of ``HEAD_PARAMETERS``. Raises ValueError for a parameter that is missing
    or does not fit, TypeError for what is neither a JAX nor a NumPy array, and as ``keep`` does
    for the mask. No value is looked at, so that ``jax.jit`` can compile what calls this.
    """
    names = list(HEAD_PARAMETERS)
    if missing := [name for name in names[2:] if name not in params]:
        raise ValueError(f"params must hold {', '.join(names[2:])}, but lacks "
                         f"{', '.join(missing)}")
    arrays = {"x": x, "memory": memory} | {name: params[name] for name in names[2:]}
    for name, given in arrays.items():
        array(given, name)
        if framework(given) not in ("jax", "numpy"):
            raise TypeError(f"{name} must be a JAX or a NumPy array, got "
                            f"{FRAMEWORKS.get(framework(given), type(given).__name__)}")
    sizes = check_shapes(", ".join(HEAD_PARAMETERS.values()), *arrays.values(), names=names)
    keep = boolean(np.True_ if keep is None else keep)
    scores = tuple(sizes[letter] for letter in "bhij")
    _broadcasts(tuple(keep.shape), scores, "keep")
    return sys.modules["jax"].numpy.broadcast_to(keep, scores)
