"""Which part of a torch module or Keras layer holds W_q, W_k, W_v and W_o, where nobody says."""

import math
import re

from utils.doctor.modules.slots import Slot, framework, parts, tensors

WORDS = re.compile(r"(?:w|to|fc|lin|linear|proj)?_*(?P<what>queries|query|q|keys|key|k|values|value"
                   r"|v|output|out|o|proj|fc|dense)s?_*(?:proj|linear|dense|fc|w|layer)?_*\d*")


class HoldingError(ValueError):
    """It cannot be told where a module holds its weights."""


def guess(module, d_model, n_heads):
    """Return the Slots of a module that maps d_model to d_model, by shapes and then by names.

    Raises HoldingError when there are not a q, a k and a v to be seen, RefusalError as ``parts``.
    """
    found, loose = _by_shape(module, d_model, n_heads)
    free = [letter for letter in "qkvo" if letter not in "".join(slot.letters for slot in found)]
    kinds = list(dict.fromkeys(kind or name for name, kind in loose))
    letters = _assigned({kind: _letter(kind) for kind in kinds}, free)
    heads = dict.fromkeys(kinds, 0)
    for name, kind in loose:
        if (kind or name) in letters:
            found.append(Slot(name, letters[kind or name], heads[kind or name] if kind else None))
            heads[kind or name] += 1
    if not set("qkv") <= set("".join(slot.letters for slot in found)):
        raise HoldingError(f"where {type(module).__name__} holds q, k and v cannot be guessed; say "
                         'roles={"q": name, "k": name, "v": name, "o": name}')
    for slot in found:
        parts(module, slot.name)
    return found


def _by_shape(module, d_model, n_heads):
    """Return the Slots of what is packed, and (name, kind) of what holds one letter or a head's.

    Squares as wide as a head count only where there are not enough others.
    """
    square, found, loose, small = d_model ** 2, [], [], []
    for name in _candidates(module):
        shape = tuple(tensors(module, name)[0].shape)
        count = math.prod(shape)
        if count in (3 * square, 2 * square):
            found.append(Slot(name, "qkv"[3 - count // square:]))
        elif count == square:
            loose.append((name, None))
        elif count * n_heads == square:
            loose.append((name, re.sub(r"\d+", "", name)))
        elif shape[:2] == (d_model // n_heads,) * 2:
            loose.append((name, None))
            small.append(loose[-1])
    kinds = {kind or name for name, kind in loose if (name, kind) not in small}
    if len(kinds) + sum(len(slot.letters) for slot in found) >= 3:
        loose = [pair for pair in loose if pair not in small]
    return found, loose


def _assigned(words, free):
    """Return {kind: letter} from what the names say, and else in the order in which all were made.

    ``words``: {kind: the letter that it speaks of, or ""}; ``free``: the letters to be given away.
    """
    said = list(words.values())
    clear = {kind: x for kind, x in words.items() if x in free and said.count(x) == 1}
    due = [letter for letter in free if letter not in clear.values()]
    rest = [kind for kind in words if kind not in clear]
    if due == ["o"] and "o" in said:
        return clear | {kind: "o" for kind in rest if words[kind] == "o"}
    if due == ["o"] and clear:  # what comes after the others, if anything does
        kinds = list(words)
        rest.sort(key=lambda kind: kinds.index(kind) < max(map(kinds.index, clear)))
    group = [re.sub(r"\d+", "", kind) for kind in rest]
    rest.sort(key=lambda kind: group.count(re.sub(r"\d+", "", kind)) != 3)  # a list of q, k and v
    return clear | dict(zip(rest, due, strict=False))


def _candidates(module):
    """Return the names of parts, or else parameters, that hold a kernel."""
    if framework(module) == "tensorflow":
        return [name for name, part in vars(module).items() if hasattr(part, "kernel")]
    linear = [name for name, part in module.named_modules()
              if _flat(getattr(part, "weight", None)) and getattr(part, "groups", 1) == 1]
    return linear + [name for name, w in module.named_parameters() if w.ndim == 2
                     and name.rpartition(".")[0] not in linear]


def _flat(weight):
    """Return whether a weight is a matrix, or that of a convolution of a single place."""
    shape = tuple(getattr(weight, "shape", ()))
    return len(shape) >= 2 and set(shape[2:]) <= {1}


def _letter(name):
    """Return which of q, k, v, o a name speaks of, or nothing."""
    for part in reversed(name.strip(".").lower().split(".")):
        match = WORDS.fullmatch(part)
        if match:
            first = match["what"][0]
            return first if first in "qkvo" else "o"
    return ""
