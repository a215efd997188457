"""Checks of q, k and v: arrays of one framework and dtype whose axes fit together."""

import sys

from .compare import dtype_name

FRAMEWORKS = {"numpy": "a NumPy array", "torch": "a PyTorch tensor",
              "tensorflow": "a TensorFlow tensor", "jax": "a JAX array"}


LEFT_OUT = object()


def framework(x):
    """Return "numpy", "torch", "tensorflow" or "jax" for their arrays; "" for others."""
    homes = [kind.__module__.partition(".")[0] for kind in type(x).__mro__]
    return next((home for home in homes if home in FRAMEWORKS), "")


def array(x, name, axes=1):
    """Raise unless x is an array of floating-point numbers with at least so many axes.

    The error is TypeError for anything else than an array, and for integers, bools and complex
    numbers; ValueError for fewer axes. ``name`` is the name of the argument in the message.
    """
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise TypeError(f"{name} must be an array or a tensor, got {type(x).__name__}")
    kind = dtype_name(x)
    if "float" not in kind:
        cause = ("; its real part alone would be another array" if "complex" in kind else
                 ": the results are fractions")
        raise TypeError(f"{name} must hold floating-point numbers, got {kind}{cause}")
    if len(x.shape) < axes:
        raise ValueError(f"{name} must have at least {axes} axes, got {tuple(x.shape)}")


def scores(x):
    """Raise TypeError unless x holds floating-point numbers or int64.

    The maximum of a row is subtracted from it, and narrower or unsigned integers would overflow.
    """
    if not hasattr(x, "dtype") or dtype_name(x) != "int64":
        array(x, "scores")


def inputs(linear, x, memory=None):
    """Raise unless x and memory, (b, i or j, d_in), fit an ``nn.Linear``: tensors of its dtype.

    ``memory`` None is not examined. The error is TypeError for what is not a tensor of the dtype of
    the weight, and ValueError for other axes.
    """
    for name, side in (("x", x), ("memory", memory)):
        if name == "memory" and side is None:
            continue
        array(side, name)
        if framework(side) != "torch":
            raise TypeError(f"{name} must be a PyTorch tensor, got "
                            f"{FRAMEWORKS.get(framework(side), type(side).__name__)}")
        if side.dtype != linear.weight.dtype and not torch_autocasts(side):
            raise TypeError(f"{name} is {dtype_name(side)}, but the layer's weights are "
                            f"{dtype_name(linear.weight)}: convert one of them")
        if len(side.shape) != 3 or side.shape[-1] != linear.in_features:
            raise ValueError(f"{name} must have three axes (batch, length, {linear.in_features}), "
                             f"got {tuple(side.shape)}")


def tokens(tokens, embedding):
    """Return ``tokens`` (b, n), at least one column, if an ``nn.Embedding`` can look them up.

    The error is TypeError for what is not a tensor of integers, else ValueError. Numbers outside
    the vocabulary are looked for on a CPU only; elsewhere, that would wait for the device.
    """
    if framework(tokens) != "torch":
        raise TypeError("tokens must be a PyTorch tensor, got "
                        f"{FRAMEWORKS.get(framework(tokens), type(tokens).__name__)}")
    if dtype_name(tokens) not in ("int64", "int32"):
        raise TypeError(f"tokens must be int64 or int32, got {dtype_name(tokens)}")
    if tokens.ndim != 2 or not tokens.shape[1]:
        raise ValueError("tokens must be (batch, length) with at least one token, got "
                         f"{tuple(tokens.shape)}")
    if tokens.device.type == "cpu" and not sys.modules["torch"].compiler.is_compiling():
        low, high = tokens.aminmax() if len(tokens) else (0, 0)
        if low < 0 or high >= embedding.num_embeddings:
            raise ValueError(f"tokens must be in 0 .. {embedding.num_embeddings - 1}, the "
                             f"vocabulary, got {int(low)} .. {int(high)}")
    return tokens


def torch_autocasts(x):
    """Return whether PyTorch chooses the dtypes by itself at the moment, on the device of x."""
    torch, device = sys.modules["torch"], x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def same_kind(**arrays):
    """Raise TypeError unless all arrays are of one framework, and tensors of one dtype.

    Where PyTorch's autocast chooses the dtypes, those of its tensors may differ.
    """
    (first, x), *others = arrays.items()
    for name, y in others:
        if framework(x) != framework(y):
            raise TypeError(f"{first} is {FRAMEWORKS.get(framework(x), type(x).__name__)}, but "
                            f"{name} is {FRAMEWORKS.get(framework(y), type(y).__name__)}: convert "
                            "one of them")
        free = framework(x) == "numpy" or (framework(x) == "torch" and torch_autocasts(x))
        if x.dtype != y.dtype and not free:
            raise TypeError(f"{first} is {dtype_name(x)}, but {name} is {dtype_name(y)}: convert "
                            "one of them")


def sides(q, k, v=LEFT_OUT, grouped=False):
    """Raise unless q (…, i, d), k (…, j, d) and v (…, j, d_v) fit together.

    Without ``v``, it is not asked for. ``grouped``: k and v may have fewer heads, axis -3, than q,
    and no keys at all. The error is TypeError for what is not an array, or of another framework or
    dtype, else ValueError.
    """
    arrays = {"q": q, "k": k} | ({} if v is LEFT_OUT else {"v": v})
    for name, x in arrays.items():
        array(x, name, 2)
    same_kind(**arrays)
    if q.shape[-1] != k.shape[-1]:
        raise ValueError("q and k must have the same head dimension (last axis): q has "
                         f"{q.shape[-1]}, k has {k.shape[-1]}")
    if not k.shape[-2] and framework(k) == "numpy" and not grouped:
        raise ValueError(f"k must have at least one key, got {tuple(k.shape)}")
    if v is LEFT_OUT:
        return
    if k.shape[-2] != v.shape[-2]:
        raise ValueError("k and v must have equally many keys (axis -2): k has "
                         f"{k.shape[-2]}, v has {v.shape[-2]}")
    before = {name: tuple(x.shape[:-3 if grouped else -2]) for name, x in arrays.items()}
    if len({len(x.shape) for x in arrays.values()}) > 1 or len({*before.values()}) > 1:
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in arrays.items())
        raise ValueError(f"q, k and v must agree in the axes before the last two, got {shapes}")
