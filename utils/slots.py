"""Where a torch module or Keras layer holds W_q, W_k, W_v and W_o, and how to write into it."""

import math
import operator
import re
import sys
from typing import NamedTuple

import numpy as np

WORDS = re.compile(r"(?:w|to|fc|lin|linear|proj)?_*(?P<what>queries|query|q|keys|key|k|values|value"
                   r"|v|output|out|o|proj|fc|dense)s?_*(?:proj|linear|dense|fc|w|layer)?_*\d*")


class HoldingError(ValueError):
    """It cannot be told where a module holds its weights."""


class Slot(NamedTuple):
    """A part or parameter of a module, by name, what it holds, letters of qkvo, and which head."""

    name: str
    letters: str
    head: int | None = None


def framework(module):
    """Return "torch" for a torch module, "tensorflow" for a Keras layer, or nothing."""
    torch = sys.modules.get("torch")
    if torch and isinstance(module, torch.nn.Module):
        return "torch"
    return "tensorflow" if hasattr(module, "get_weights") else ""


def named(roles, packed=None):
    """Return the Slots that somebody has named: {"q": name, …} and what holds [q | k | v]."""
    return [*([Slot(packed, "qkv")] if packed else []),
            *(Slot(name, letters) for letters, name in roles.items())]


def parts(module, name):
    """Return (weight, bias or None) of the part or parameter of this name."""
    part = operator.attrgetter(name)(module)
    for weight in ("weight", "kernel"):
        if hasattr(part, weight):
            return getattr(part, weight), getattr(part, "bias", None)
    owner, _, last = name.rpartition(".")
    owner = operator.attrgetter(owner)(module) if owner else module
    return part, getattr(owner, last.replace("weight", "bias"), None) if "weight" in last else None


def write(module, slot, weights, n_heads):
    """Write what a slot holds of a weight set, a dict of NumPy arrays, into the module."""
    for kind, variable in zip("Wb", parts(module, slot.name), strict=True):
        if variable is None:
            continue
        array = np.concatenate([weights[f"{kind}_{letter}"] for letter in slot.letters], axis=-1)
        if slot.head is not None:
            array = np.split(array, n_heads, axis=-1)[slot.head]
        if framework(module) == "tensorflow":
            variable.assign(array.reshape(variable.shape))  # heads may have an axis of their own
        else:
            torch = sys.modules["torch"]
            with torch.no_grad():
                variable.copy_(torch.as_tensor(_turned(module, slot.name, array, variable.shape)))


def _turned(module, name, array, shape):
    """Return a kernel (in, out) as the module has it: (out, in), unless its shape or class say no.

    GPT-2's Conv1D is (in, out).
    """
    if array.ndim == 1 or type(operator.attrgetter(name)(module)).__name__ == "Conv1D":
        return array
    return array if tuple(shape) == array.shape != array.shape[::-1] else array.T


def guess(module, d_model, n_heads):
    """Return the Slots of a module that maps d_model to d_model, by shapes and then by names.

    Raises HoldingError when there are not a q, a k and a v to be seen.
    """
    square, found, loose = d_model ** 2, [], []
    for name in _candidates(module):
        count = math.prod(parts(module, name)[0].shape)
        if count in (3 * square, 2 * square):
            found.append(Slot(name, "qkv"[3 - count // square:]))
        elif count == square:
            loose.append((name, None))
        elif count * n_heads == square:
            loose.append((name, re.sub(r"\d+", "", name)))
    kinds = dict.fromkeys(kind or name for name, kind in loose)
    free = [letter for letter in "qkvo" if letter not in "".join(slot.letters for slot in found)]
    letters = {kind: _letter(kind) for kind in kinds}
    if sorted(letters.values()) != sorted(free)[:len(kinds)] and set(letters.values()) != set(free):
        letters = dict(zip(kinds, free, strict=False))  # in the order in which they were made
    heads = dict.fromkeys(kinds, 0)
    for name, kind in loose:
        if (kind or name) in letters:
            found.append(Slot(name, letters[kind or name], heads[kind or name] if kind else None))
            heads[kind or name] += 1
    if not set("qkv") <= set("".join(slot.letters for slot in found)):
        raise HoldingError(f"where {type(module).__name__} holds q, k and v cannot be guessed; say "
                         'roles={"q": name, "k": name, "v": name, "o": name}')
    return found


def _candidates(module):
    """Return the names of parts, or else parameters, that hold a kernel."""
    if framework(module) == "tensorflow":
        return [name for name, part in vars(module).items() if hasattr(part, "kernel")]
    linear = [name for name, part in module.named_modules()
              if getattr(part, "weight", None) is not None and part.weight.ndim == 2]
    return linear + [name for name, w in module.named_parameters() if w.ndim == 2
                     and name.rpartition(".")[0] not in linear]


def _letter(name):
    """Return which of q, k, v, o a name speaks of, or nothing."""
    for part in reversed(name.strip(".").lower().split(".")):
        match = WORDS.fullmatch(part)
        if match:
            first = match["what"][0]
            return first if first in "qkvo" else "o"
    return ""
