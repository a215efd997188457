"""A guess of which parts of a torch module or Keras layer hold W_q, W_k, W_v and W_o."""

import math
import re

from .. import _subject, backends
from .slots import Slot, parts, tensors

AFFIX = r"(?:w|to|fc|lin|linear|proj|project|projection|conv|conv1x1|map|transform|dense|layer)?"
WORDS = re.compile(rf"{AFFIX}_*(?P<what>queries|query|q|keys|key|k|values|value|v|output|out|o|"
                   rf"proj|fc|dense)s?_*{AFFIX}_*\d*")


class RolesError(ValueError):
    """The roles of the parts of a module cannot be guessed."""


def guess(module, d_model, n_heads, wide=False):
    """Return the Slots of a module that maps d_model to d_model, from shapes and then from names.

    ``wide``: whether each head is as wide as the model.

    Raises RolesError if q, k and v are not found, and RefusalError as ``slots.parts`` does.
    """
    found, loose = _by_shape(module, d_model, n_heads, wide)
    held = "".join(slot.letters for slot in found)
    if len(held) > len(set(held)):
        raise RolesError(f"the parts of {type(module).__name__} are wider than the model; pass "
                         '`roles={"q": name, "k": name, "v": name, "o": name}`')
    if n_heads == 2 and held == "kv" and len(loose) < 2:
        found = [Slot(found[0].name, "qkv", None, "kv")]  # of two heads, k and v are as wide as q
    free = [letter for letter in "qkvo" if letter not in "".join(slot.letters for slot in found)]
    letters = _assigned({kind: letter(kind) for kind in loose}, free)
    for kind, its_slots in loose.items():
        for slot in its_slots if kind in letters else ():
            held = letters[kind]
            kv = slot.kv if held in "kv" else 1
            alone = slot.head is not None and len(its_slots) == 1  # a head that all others share
            found.append(Slot(slot.name, held, None if alone else slot.head,
                              held if alone or kv > 1 else "", kv))
    if not set("qkv") <= set("".join(slot.letters for slot in found)):
        raise RolesError(f"the parts of {type(module).__name__} that hold q, k and v cannot be "
                         'guessed; pass `roles={"q": name, "k": name, "v": name, "o": name}`')
    for slot in found:
        parts(module, slot.name)
    return found


def _by_shape(module, d_model, n_heads, wide):
    """Return the Slots of packed parts, and {kind: Slots without letters} of the other parts."""
    square, found, loose, small = d_model ** 2 * (n_heads if wide else 1), [], {}, set()
    packed, grouped = {}, {}
    # Half of the heads are too many: their k and v together would be as wide as q.
    for kv in (n for n in range(1, (n_heads + 1) // 2) if n_heads % n == 0):
        size = 2 * kv * square // n_heads
        packed |= {square + size: Slot("", "qkv", shared="kv", kv=kv),
                   size: Slot("", "kv", shared="kv", kv=kv)}
        grouped[kv * d_model ** 2 // n_heads] = kv
    packed |= {3 * square: Slot("", "qkv"), 2 * square: Slot("", "kv")}
    for name in _candidates(module):
        shape = tuple(tensors(module, name)[0].shape)
        count = math.prod(shape)
        kv = grouped.get(count, 1) if letter(name) in ("k", "v") else 1
        if count in packed and kv == 1:
            found.append(packed[count]._replace(name=name))
        elif kv > 1 or count == square:
            loose.setdefault(name, []).append(Slot(name, "", kv=kv))
        elif count * n_heads == square:
            heads = loose.setdefault(_kind(name), [])
            heads.append(Slot(name, "", len(heads)))
        elif shape[:2] == (d_model // n_heads,) * 2:  # counts if there are too few others
            loose.setdefault(name, []).append(Slot(name, ""))
            small.add(name)
    others = {kind: its_slots for kind, its_slots in loose.items() if kind not in small}
    enough = len(others) + sum(len(slot.letters) for slot in found) >= 3
    return found, others if enough else loose


def _kind(name):
    """Return a name without its numbers, which the parts of a list of heads share."""
    return re.sub(r"\d+", "", name)


def _assigned(words, free):
    """Return {kind: letter}, one of the free ones, from the words {kind: letter}, else by order."""
    said = list(words.values())
    clear = {kind: x for kind, x in words.items() if x in free and said.count(x) == 1}
    due = [letter for letter in free if letter not in clear.values()]
    rest = [kind for kind in words if kind not in clear]
    if due == ["o"] and "o" in said:
        return clear | {kind: "o" for kind in rest if words[kind] == "o"}
    if due == ["o"] and clear:  # a part after the others, if there is one
        kinds = list(words)
        rest.sort(key=lambda kind: kinds.index(kind) < max(map(kinds.index, clear)))
    group = list(map(_kind, rest))
    rest.sort(key=lambda kind: group.count(_kind(kind)) != 3)  # a list of q, k and v
    return clear | dict(zip(rest, due, strict=False))


def _candidates(module):
    """Return the names of the parts, or else the parameters, that hold a weight matrix."""
    if not backends.TORCH.is_module(module):
        return _in_keras(module)
    linear = [name for name, part in module.named_modules() if "Embedding" not in type(
        part).__name__ and _flat(getattr(part, "weight", None)) and getattr(part, "groups", 1) == 1]
    own = {name for name, part in module.named_modules()
           if not type(part).__module__.startswith("torch.")}
    return linear + [name for name, w in module.named_parameters()
                     if name.rpartition(".")[0] not in linear and "rel" not in name and (
                         w.ndim == 2 or (w.ndim == 3 and name.rpartition(".")[0] in own))]


def _in_keras(layer, prefix=""):
    """Return the names of the parts, or else the variables, that hold a weight in a Keras layer."""
    kept = {name: part for name, part in vars(layer).items() if not name.startswith("__")}
    found = [prefix + name for name, part in kept.items() if hasattr(part, "kernel")]
    for name, part in kept.items():
        if backends.TENSORFLOW.is_module(part) and not hasattr(part, "kernel"):
            found += _in_keras(part, f"{prefix}{name}.")
    return found or [prefix + name for name, part in kept.items()
                     if hasattr(part, "assign") and len(getattr(part, "shape", ())) == 2]


def _flat(weight):
    """Return whether a weight is a matrix, or that of a convolution of size 1."""
    shape = tuple(getattr(weight, "shape", ()))
    return len(shape) >= 2 and set(shape[2:]) <= {1}


def letter(name):
    """Return which of q, k, v, o is in a name, or ""."""
    for part in reversed(name.strip(".").lower().split(".")):
        match = WORDS.fullmatch(part)
        if match:
            first = match["what"][0]
            return first if first in "qkvo" else "o"
    return ""


def is_lazy(module):
    """Return whether it is a torch module with parameters without a shape before its first call."""
    return backends.TORCH.is_module(module) and any(
        map(backends.TORCH.library.nn.parameter.is_lazy, module.parameters()))


def width(module, slot):
    """Return d_model of a module, from a weight (d_model, d_model) or several of them packed."""
    if is_lazy(module):
        raise _subject.RefusalError("has weights without a shape before its first call; call it "
                                    "once, or pass its class")
    if slot is None:
        counts = [math.prod(w.shape) for w in all_weights(module) if len(w.shape) > 1]
        widths = [math.isqrt(n) for n in counts if math.isqrt(n) ** 2 == n]
        if not widths:
            raise _subject.RefusalError("has no square weight, so its width is unknown; pass "
                                        '`roles={"q": name, …}`')
        return max(widths)
    with _subject.refusing():
        kernel, _ = parts(module, slot.name)
    return math.isqrt(math.prod(kernel.shape) // len(slot.letters))


def all_weights(module):
    return module.parameters() if backends.TORCH.is_module(module) else module.weights
