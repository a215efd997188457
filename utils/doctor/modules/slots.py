"""Where a torch module or Keras layer stores W_q, W_k, W_v and W_o, and how to write them."""

import operator
import re
from typing import NamedTuple

import numpy as np

from ... import checks
from .. import _subject, backends

# What is left of a name without these is the projection: W_q and bias_q belong to q.
KINDS = re.compile(r"weight|kernel|bias|^[wb]|_[wb]$|_", re.IGNORECASE)
# Classes whose weights have a known layout.
KNOWN_LAYOUT = re.compile(r"torch\.nn\.modules\.(linear|conv)|keras\..*\.core")
# Parameters from which a module computes its weight.
COMPUTED = ("weight_g", "weight_v", "weight_orig", "parametrizations")


class Slot(NamedTuple):
    """The name of a part or parameter of a module, the letters of qkvo in it, and its head.

    ``shared``: those of the letters of which the heads share projections, ``kv`` of them.
    """

    name: str
    letters: str
    head: int | None = None
    shared: str = ""
    kv: int = 1


def framework(module):
    """Return "torch" for a torch module, "tensorflow" for a Keras layer, and else ""."""
    backend = backends.of_module(module)
    return backend.name if backend else ""


def named(roles, packed=None):
    """Return the Slots of ``roles``, {"q": name, …}, and ``packed``, which holds [q | k | v]."""
    found = [Slot(packed, "qkv")] if packed else []
    return found + [Slot(name, letters) for letters, name in roles.items()]


def parts(module, name):
    """Return (weight, bias or None) of the part or parameter of this name.

    Raises RefusalError for a weight that is computed from others, and if a vector that belongs to
    no weight may be its bias.
    """
    part, owner = _homes(module, name)
    weight, bias = tensors(module, name)
    if part is not weight and any(hasattr(part, made) for made in COMPUTED):
        raise _subject.RefusalError(f"computes the weight of {name} from others, as weight_norm "
                                    "and parametrize do, so the doctor cannot write it")
    loose = [] if bias is not None else [
        other for home in (part, owner) for other, vector in _own(home).items()
        if vector.shape in [(n,) for n in weight.shape] and not _neutral(vector)
        and not any(_kin(other, last) for last, w in _own(home).items() if len(w.shape) > 1)]
    if loose:
        raise _subject.RefusalError(f"has no bias with a name that fits {name}, but "
                                    f"{' and '.join(loose)} may be its bias; call the bias of W_q "
                                    "b_q, and that of Wq bq")
    return weight, bias


def tensors(module, name):
    """Return (weight, bias or None) of the part or parameter of this name, unchecked."""
    part, owner = _homes(module, name)
    last = next((last for last in ("weight", "kernel") if hasattr(part, last)), "")
    if last:
        weight, owner, bias = getattr(part, last), part, getattr(part, "bias", None)
    else:
        weight, last, bias = part, name.rpartition(".")[2], None
    for other, vector in _own(owner).items() if bias is None else ():
        # A bias may have an axis for the heads, too.
        if (_kin(other, last) and len(vector.shape) < min(len(weight.shape), 3)
                and set(vector.shape) <= set(weight.shape)):
            return weight, vector
    return weight, bias


def _homes(module, name):
    """Return the part or parameter of this name, and the module that contains it."""
    owner = name.rpartition(".")[0]
    return operator.attrgetter(name)(module), (
        operator.attrgetter(owner)(module) if owner else module)


def _own(home):
    """Return {name: parameter} of a module or layer, without those of its parts."""
    if backends.TORCH.is_module(home):
        return dict(home.named_parameters(recurse=False))
    return {name: w for name, w in getattr(home, "__dict__", {}).items()
            if hasattr(w, "assign") and hasattr(w, "shape")}


def _kin(bias, weight):
    """Return whether two names belong together: b_q and W_q, q_bias and q_weight, bq and Wq."""
    return KINDS.sub("", bias).lower() == KINDS.sub("", weight).lower()


def _neutral(vector):
    """Return whether a vector is all zeros or all ones, so it has no effect as a bias or gain."""
    numbers = set(checks.to_numpy(vector).tolist())
    return numbers in ({0.0}, {1.0})


def write(module, slot, weights, n_heads):
    """Write the part of a weight set, a dict of NumPy arrays, that belongs to a slot.

    A slot with the size of a single head gets the weights of that head, and projections that the
    heads share get those of the first heads.
    """
    def columns(array, letter):
        if letter in slot.shared:
            return array[..., :array.shape[-1] // n_heads * slot.kv]
        return array if slot.head is None else np.split(array, n_heads, axis=-1)[slot.head]

    for kind, variable in zip("Wb", tensors(module, slot.name), strict=True):
        if variable is None:
            continue
        array = np.concatenate([columns(weights[f"{kind}_{letter}"], letter)
                                for letter in slot.letters], axis=-1)
        small = tuple(n // n_heads for n in array.shape)
        if tuple(variable.shape) in (small, (*small, 1)):
            array = array[tuple(map(slice, small))]
        if not backends.TORCH.is_module(module):
            variable.assign(array.reshape(variable.shape))  # heads may have their own axis
            continue
        if variable.ndim == array.ndim + 1 and variable.shape[-1] > 1:
            array = _in_heads(array, slot.letters, tuple(variable.shape), n_heads)
        else:
            array = _as_stored(module, slot.name, array, variable.shape)
            array = array.reshape(array.shape + (1,) * (variable.ndim - array.ndim))
        variable.data.copy_(backends.TORCH.array(array))


def _in_heads(array, letters, shape, n_heads):
    """Return a weight (d_in, h d), or (h d, d_out) for W_o, or a bias with an axis for heads."""
    if array.ndim == 1:
        return array.reshape(shape)
    if shape[0] == len(letters) > 1:                            # q, k and v, each (out, in)
        apart = array.reshape(len(array), len(letters), -1)
        return apart.transpose((1, 2, 0) if shape[1] == apart.shape[2] else (1, 0, 2))
    rows = array.T if letters == "o" else array
    apart = rows.reshape(len(rows), n_heads, -1)                # (e, h, d)
    fitting = [apart.transpose(order) for order in ((1, 0, 2), (0, 1, 2), (1, 2, 0), (2, 1, 0))
               if apart.transpose(order).shape == shape]
    if fitting:
        return fitting[-1 if letters == "o" else 0]
    raise _subject.RefusalError(f"has a weight of shape {shape}, whose axes are unknown")


def _as_stored(module, name, array, shape):
    """Return a weight (in, out) as the module stores it: (out, in), or (in, out) if that fits."""
    if array.ndim == 1 or type(operator.attrgetter(name)(module)).__name__ == "Conv1D":
        return array
    return array if tuple(shape[:2]) == array.shape != array.shape[::-1] else array.T


def unsure(module, slots):
    """Return the letters of the Slots whose weights may be (in, out) or (out, in).

    These are the square parameters of an unknown class; the layout of a library's class is known.
    """
    found = ""
    for slot in slots:
        shape = tuple(tensors(module, slot.name)[0].shape)
        kind = type(operator.attrgetter(slot.name)(module))
        known = kind.__name__ == "Conv1D" or any(
            KNOWN_LAYOUT.match(base.__module__) for base in kind.__mro__)
        square = len(shape) > 1 and shape[-1] == shape[-2]
        found += slot.letters if square and not known else ""
    return found
