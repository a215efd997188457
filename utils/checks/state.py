"""Checks of the arguments of ``utils.attention.state``."""

import math
import sys

from .sides import FRAMEWORKS, array, framework, same_kind, sides

ROWS = "(…, i), one number for each token of k"


def tensor(x, name, axes=1):
    """Raise unless x is a PyTorch tensor of floating-point numbers with at least so many axes."""
    array(x, name, axes)
    if framework(x) != "torch":
        raise TypeError(f"{name} must be a PyTorch tensor, got {FRAMEWORKS[framework(x)]}")


def gates(k, **numbers):
    """Raise unless k is (…, i, d) and each of the named tensors (…, i), of its dtype."""
    tensor(k, "k", 2)
    for name, gate in numbers.items():
        array(gate, name)
        same_kind(k=k, **{name: gate})
        if tuple(gate.shape) != tuple(k.shape[:-1]):
            raise ValueError(f"{name} must be {ROWS}: {tuple(k.shape[:-1])}, got "
                             f"{tuple(gate.shape)}")


def logarithms(log_decay):
    """Raise unless log_decay is a PyTorch tensor of finite numbers that are at most 0.

    The numbers are looked at on a CPU only; elsewhere, that would wait for the device.
    """
    tensor(log_decay, "log_decay")
    if log_decay.device.type != "cpu" or sys.modules["torch"].compiler.is_compiling():
        return
    low, high = (end.item() for end in log_decay.aminmax()) if log_decay.numel() else (0, 0)
    if not -math.inf < low <= high <= 0:
        raise ValueError("log_decay must be finite and at most 0, because it is the logarithm of a "
                         f"decay between 0 and 1, got {low:.3g} to {high:.3g}")


def inputs(q, k, v, log_decay=None, beta=None, state=None):
    """Return (log_decay, state), zeros in the place of None, if all arguments fit each other.

    q and k are (…, i, d), v is (…, i, d_v), ``log_decay`` and ``beta`` are (…, i), and ``state`` is
    (…, d, d_v), PyTorch tensors of one dtype. The error is TypeError for what is not such a tensor,
    and ValueError for other shapes and as ``logarithms`` does.
    """
    sides(q, k, v)
    tensor(q, "q")
    if q.shape != k.shape:
        raise ValueError("every token has a query and a key, so q and k must have one shape, got q "
                         f"{tuple(q.shape)} and k {tuple(k.shape)}")
    if not k.shape[-2]:
        raise ValueError(f"k must have at least one token, got {tuple(k.shape)}")
    gates(k, **{name: gate for name, gate in (("log_decay", log_decay), ("beta", beta))
                if gate is not None})
    if log_decay is None:
        log_decay = k.new_zeros(k.shape[:-1])
    logarithms(log_decay)
    shape = (*k.shape[:-2], k.shape[-1], v.shape[-1])
    if state is None:
        return log_decay, k.new_zeros(shape)
    array(state, "state")
    same_kind(k=k, state=state)
    if tuple(state.shape) != shape:
        raise ValueError(f"state must be (…, d, d_v) = {shape}, got {tuple(state.shape)}")
    return log_decay, state


def real(real, k):
    """Return ``real`` (b, i) with an axis for the heads, (b, 1, i), if it fits k (b, h, i, d).

    It must be a bool tensor, True = token, not padding. Raises TypeError or ValueError otherwise.
    """
    tensor(k, "k")
    if framework(real) != "torch" or real.dtype != sys.modules["torch"].bool:
        kind = getattr(real, "dtype", type(real).__name__)
        raise TypeError(f"real must be a PyTorch tensor of bool, True = no padding, got {kind}")
    if k.ndim != 4 or tuple(real.shape) != (k.shape[0], k.shape[2]):
        raise ValueError("real must be (b, i) for k (b, h, i, d), got real "
                         f"{tuple(real.shape)} and k {tuple(k.shape)}")
    return real[:, None]


def accepted(accepted, x, axes, axis, less):
    """Raise unless accepted is (b), of int64, from 0 to the number of drafted tokens of x (b, …).

    x must have ``axes`` axes, and has ``less`` entries more on ``axis`` than drafted tokens.
    """
    torch = sys.modules["torch"]
    tensor(x, "the tensor of the drafted tokens", axes)
    if framework(accepted) != "torch" or accepted.dtype != torch.int64:
        kind = getattr(accepted, "dtype", type(accepted).__name__)
        raise TypeError(f"accepted must be a PyTorch tensor of int64, got {kind}")
    if x.ndim != axes or tuple(accepted.shape) != (x.shape[0],):
        raise ValueError(f"accepted must be (b,), one number for each request of a tensor with "
                         f"{axes} axes, got {tuple(accepted.shape)} and {tuple(x.shape)}")
    drafted = x.shape[axis] - less
    if accepted.numel() and not 0 <= accepted.min() <= accepted.max() <= drafted:
        raise ValueError(f"accepted must be from 0 to {drafted}, the number of drafted tokens, got "
                         f"{accepted.tolist()}")


def window(window, x):
    """Raise unless window is (b, w, c) and x is (b, i, c), of one dtype."""
    tensor(window, "window", 3)
    tensor(x, "x", 3)
    same_kind(window=window, x=x)
    if window.ndim != 3 or x.ndim != 3 or window.shape[::2] != x.shape[::2]:
        raise ValueError("window must be (b, w, c) and x (b, i, c), got "
                         f"{tuple(window.shape)} and {tuple(x.shape)}")
