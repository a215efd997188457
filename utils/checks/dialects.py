"""What the dialects' own conventions ask of their arguments: sequence first, valid lengths."""

import numpy as np

from utils.checks.arguments import boolean
from utils.checks.compare import dtype_name, to_numpy


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
